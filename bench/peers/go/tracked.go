package main

import (
	"runtime"
	"strconv"
	"sync"
	"sync/atomic"
	"time"
)

// E1 to E8: tasks that can be asked about. See bench/engine.c, which does the same.

const (
	unfinishedLimit = 1024
	retryingLimit   = 65536 // a thousand would all wait for their retry most of the time
	retainedDefault = 100_000
	weighed         = 1_000_000
	recentCount     = 8192
	readers         = 2
	snapshotsPerSec = 100_000
	watchPairs      = 31
	watchPart       = 8
	dueMsMin        = 2000
	dueMsSpread     = 2000
)

func nextRandom(state *uint64) uint64 {
	*state ^= *state << 13
	*state ^= *state >> 7
	*state ^= *state << 17
	return *state
}

func (t *tally) work(*result) error {
	t.add()
	return nil
}

func produceTracked(g *registry, t *tally) func(share int) {
	return func(share int) {
		for n := 0; n < share; n++ {
			g.submit(t.work, "", 0)
		}
	}
}

func reportTracked(name string, producers, tasks int) {
	t, g := &tally{}, openRegistry(2, unfinishedLimit, retainedDefault)
	ns := measureRate(producers, tasks, produceTracked(g, t), t)
	g.close()
	t.check()
	report(name, "task", ns, "ns")
}

func runKeyed(name string, tasks int) {
	t, g := &tally{}, openRegistry(2, unfinishedLimit, retainedDefault)
	next := 0
	ns := measureRate(1, tasks, func(share int) {
		for n := 0; n < share; n++ {
			next++
			if g.submit(t.work, strconv.Itoa(next), 0) == nil {
				die("the key %d is taken", next)
			}
		}
	}, t)
	g.close()
	t.check()
	report(name, "task", ns, "ns")
}

var payload = [32]byte{'a', 'n', 'n'}

func (t *tally) workOn(p []byte) error {
	if p[0] != 'a' {
		die("that is another payload")
	}
	t.add()
	return nil
}

func runLoaded(name string, tasks int) {
	t, g := &tally{}, openRegistry(2, unfinishedLimit, retainedDefault)
	ns := measureRate(1, tasks, func(share int) {
		for n := 0; n < share; n++ {
			p := append([]byte(nil), payload[:]...) // the task's own copy
			g.submit(func(*result) error { return t.workOn(p) }, "", 0)
		}
	}, t)
	g.close()
	t.check()
	report(name, "task", ns, "ns")
}

func runRetried(name string, tasks int) {
	t, g := &tally{}, openRegistry(2, retryingLimit, retainedDefault)
	work := func(r *result) error {
		if r.id%3 == 0 && r.attempts == 1 {
			return errNotYet
		}
		t.add()
		return nil
	}
	ns := measureRate(1, tasks, func(share int) {
		for n := 0; n < share; n++ {
			g.submit(work, "", 0)
		}
	}, t)
	g.close()
	t.check()
	report(name, "task", ns, "ns")
}

// watch takes its share of the snapshots until it is told to end; it sleeps between bursts, as spinning would take a
// core from those that it watches.
func watch(g *registry, seed uint64, isOver *int64) (taken int64) {
	start := nowNs()
	for atomic.LoadInt64(isOver) == 0 {
		due := (nowNs() - start) * (snapshotsPerSec / readers) / 1_000_000_000
		for ; taken < due; taken++ {
			id := atomic.LoadInt64(&g.lastID) - 1 - int64(nextRandom(&seed)%recentCount)
			if s, found := g.get(id); !found || s.id != id {
				die("task %d is not there", id)
			}
		}
		time.Sleep(time.Millisecond)
	}
	return taken
}

// watching is how many snapshots were taken in all passes, and how long these took.
type watching struct {
	taken, timeNs int64
}

func (w *watching) check() {
	if rate := float64(w.taken) * 1e9 / float64(w.timeNs); rate < 0.9*snapshotsPerSec {
		die("only %.0f snapshots were taken a second", rate)
	}
}

// timeWatched is timeStreams while others take snapshots.
func timeWatched(g *registry, count int, t *tally, all *watching) int64 {
	var done sync.WaitGroup
	var isOver int64
	start := nowNs()
	done.Add(readers)
	for i := 0; i < readers; i++ {
		go func(seed uint64) {
			defer done.Done()
			atomic.AddInt64(&all.taken, watch(g, seed, &isOver))
		}(88172645463325252 + uint64(i))
	}
	elapsed := timeStreams(1, count, produceTracked(g, t), t)
	atomic.StoreInt64(&isOver, 1)
	done.Wait()
	all.timeNs += nowNs() - start
	return elapsed
}

func runWatched(name string, tasks int) {
	t, g := &tally{}, openRegistry(2, unfinishedLimit, retainedDefault)
	watched, rates, all := make([]float64, watchPairs), make([]float64, watchPairs), &watching{}
	count := findCount(1, produceTracked(g, t), t)
	if tasks > 0 {
		count = tasks
	}
	count /= watchPart
	for i := range rates {
		var alone int64
		for turn := 0; turn < 2; turn++ {
			if turn == i%2 {
				alone = timeStreams(1, count, produceTracked(g, t), t)
			} else {
				watched[i] = float64(timeWatched(g, count, t, all)) / float64(count)
			}
		}
		rates[i] = float64(alone) / float64(count) / watched[i]
	}
	g.close()
	t.check()
	all.check()
	report(name, "task", median(watched), "ns")
	report(name, "rate_of_E1", median(rates), "x")
}

// heapAndStackBytes also counts the stacks: a task that waits is a goroutine.
func heapAndStackBytes() int64 {
	var stats runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&stats)
	return int64(stats.HeapAlloc + stats.StackInuse)
}

func weighWaiting(count int) float64 {
	t := &tally{wanted: int64(count), all: make(chan struct{})}
	empty := heapAndStackBytes()
	g := openRegistry(2, count, 1)
	for i := 0; i < cap(g.running); i++ {
		g.running <- struct{}{}
	}
	produceTracked(g, t)(count)
	bytes := float64(heapAndStackBytes()-empty) / float64(count)
	for i := 0; i < cap(g.running); i++ {
		<-g.running
	}
	g.close()
	t.check()
	return bytes
}

func weighFinished(count int) float64 {
	t := &tally{}
	empty := heapAndStackBytes()
	g := openRegistry(2, unfinishedLimit, count)
	timeStreams(1, count, produceTracked(g, t), t)
	g.close()
	t.check()
	bytes := float64(heapAndStackBytes()-empty) / float64(count)
	if _, found := g.get(1); !found {
		die("the first task has left")
	}
	return bytes
}

// The finished ones first: a million goroutines leave stacks behind.
func runWeights(name string, tasks int) {
	count := orDefault(tasks, weighed)
	report(name, "finished", weighFinished(count), "bytes")
	report(name, "waiting", weighWaiting(count), "bytes")
}

func runDelayed(name string, tasks int) {
	count := orDefault(tasks, weighed)
	t := &tally{wanted: int64(count), all: make(chan struct{})}
	g := openRegistry(2, count, retainedDefault)
	state := uint64(88172645463325252)
	cpu, start := cpuNs(), nowNs()
	for i := 0; i < count; i++ {
		due := start + int64(dueMsMin+nextRandom(&state)%dueMsSpread)*1_000_000
		delay := time.Duration(due - nowNs())
		if delay < time.Millisecond {
			delay = time.Millisecond
		}
		g.submit(t.work, "", delay)
	}
	inserted := nowNs()
	<-t.all
	g.close()
	cpu = cpuNs() - cpu
	t.check()
	report(name, "cpu", float64(cpu)/float64(count), "ns")
	report(name, "insert", float64(inserted-start)/float64(count), "ns")
}

func reportRetained(name, label string, retained, tasks int) {
	t, g := &tally{}, openRegistry(2, unfinishedLimit, retained)
	timeStreams(1, retained, produceTracked(g, t), t)
	ns := measureRate(1, tasks, produceTracked(g, t), t)
	g.close()
	t.check()
	report(name, label, ns, "ns")
}

func runRetained(name string, tasks int) {
	reportRetained(name, "1k", 1000, tasks)
	reportRetained(name, "10k", 10_000, tasks)
	reportRetained(name, "100k", 100_000, tasks)
	reportRetained(name, "1M", 1_000_000, tasks)
}
