package main

import (
	"errors"
	"sync"
	"sync/atomic"
	"time"
)

// Tasks that can be asked about, as one writes it in Go: a sync.Map with a mutex per result, one goroutine per task,
// and a semaphore for how many of them run at once. What was finished stays until so many others were finished after it.

type state int

const (
	enqueued state = iota
	scheduled
	started
	finished
)

var errNotYet = errors.New("not yet")

const retryAfter = time.Millisecond

type result struct {
	id   int64
	key  string
	work func(r *result) error
	done chan struct{} // closed at the end

	mu       sync.Mutex
	state    state
	attempts int
	value    int64
	errs     []error
}

// snapshot is a consistent copy.
type snapshot struct {
	id, value int64
	state     state
	attempts  int
	lastError error
}

type registry struct {
	tasks  sync.Map // id to *result
	keys   sync.Map // key to *result, while unfinished
	lastID int64

	room    chan struct{} // one for each unfinished task
	running chan struct{} // the semaphore

	finished int64
	retained []int64 // ids of the finished that are still there, the oldest overwritten by the next
}

func openRegistry(workers, limit, retained int) *registry {
	return &registry{
		room:     make(chan struct{}, limit),
		running:  make(chan struct{}, workers),
		retained: make([]int64, retained),
	}
}

// submit waits for room. It returns nil if the key, unless it is empty, has an unfinished task.
func (g *registry) submit(work func(r *result) error, key string, delay time.Duration) *result {
	r := &result{work: work, key: key, done: make(chan struct{})}
	g.room <- struct{}{}
	if key != "" {
		if _, exists := g.keys.LoadOrStore(key, r); exists {
			<-g.room
			return nil
		}
	}
	r.id = atomic.AddInt64(&g.lastID, 1)
	if delay > 0 {
		r.state = scheduled
		g.tasks.Store(r.id, r)
		time.AfterFunc(delay, func() { g.run(r) })
	} else {
		g.tasks.Store(r.id, r)
		go g.run(r)
	}
	return r
}

func (g *registry) run(r *result) {
	g.running <- struct{}{}
	r.mu.Lock()
	r.state = started
	r.attempts++
	r.mu.Unlock()
	err := r.work(r)
	if err != nil {
		r.mu.Lock()
		r.state = scheduled
		r.errs = append(r.errs, err)
		r.mu.Unlock()
		<-g.running
		time.AfterFunc(retryAfter, func() { g.run(r) })
		return
	}
	r.mu.Lock()
	r.state = finished
	r.value = r.id
	r.mu.Unlock()
	close(r.done)
	if r.key != "" {
		g.keys.Delete(r.key)
	}
	g.evict(r.id)
	<-g.running
	<-g.room
}

// evict lets the oldest leave, now that this one was finished.
func (g *registry) evict(id int64) {
	place := atomic.AddInt64(&g.finished, 1) % int64(len(g.retained))
	if old := atomic.SwapInt64(&g.retained[place], id); old != 0 {
		g.tasks.Delete(old)
	}
}

func (g *registry) get(id int64) (s snapshot, found bool) {
	value, found := g.tasks.Load(id)
	if !found {
		return s, false
	}
	r := value.(*result)
	r.mu.Lock()
	defer r.mu.Unlock()
	s = snapshot{id: r.id, value: r.value, state: r.state, attempts: r.attempts}
	if len(r.errs) > 0 {
		s.lastError = r.errs[len(r.errs)-1]
	}
	return s, true
}

// close waits for all tasks and checks that each was finished.
func (g *registry) close() {
	for i := 0; i < cap(g.room); i++ {
		g.room <- struct{}{}
	}
	if g.finished != g.lastID {
		die("%d tasks were finished, %d were accepted", g.finished, g.lastID)
	}
}
