package main

import (
	"sync"
	"sync/atomic"
)

// W1, W1x, W2, W3: how long a task takes when there are always more.

const (
	warmUpNs   = 150_000_000
	measureNs  = 500_000_000
	queueLimit = 1024
)

type tally struct {
	done   int64
	wanted int64
	endNs  int64
	all    chan struct{}
}

func (t *tally) add() {
	if atomic.AddInt64(&t.done, 1) == t.wanted {
		t.endNs = nowNs()
		close(t.all)
	}
}

// timeStreams runs count tasks from so many producers, each of which gets its share of them; it returns
// nanoseconds from the first submit to the end of the last task.
func timeStreams(producers, count int, produce func(share int), t *tally) int64 {
	var ready, done sync.WaitGroup
	start := make(chan struct{})
	starts := make([]int64, producers)
	share := count / producers

	t.done, t.wanted, t.all = 0, int64(share*producers), make(chan struct{})
	ready.Add(producers)
	done.Add(producers)
	for i := 0; i < producers; i++ {
		go func(i int) {
			defer done.Done()
			ready.Done()
			<-start
			starts[i] = nowNs()
			produce(share)
		}(i)
	}
	ready.Wait()
	close(start)
	done.Wait()
	<-t.all
	first := starts[0]
	for _, s := range starts {
		if s < first {
			first = s
		}
	}
	return t.endNs - first
}

// findCount warms up with ever longer runs and returns how many tasks take about measureNs.
func findCount(producers int, produce func(share int), t *tally) int {
	for count := 10000; ; count *= 2 {
		if elapsed := timeStreams(producers, count, produce, t); elapsed >= warmUpNs {
			return int(float64(count) * measureNs / float64(elapsed))
		}
	}
}

// measureRate returns nanoseconds per task.
func measureRate(producers, tasks int, produce func(share int), t *tally) float64 {
	count := tasks
	if tasks > 0 {
		timeStreams(producers, tasks/10+producers, produce, t)
	} else {
		count = findCount(producers, produce, t)
	}
	return float64(timeStreams(producers, count, produce, t)) / float64(t.wanted)
}

// check comes after the close: only then can no task come any more that should not have run.
func (t *tally) check() {
	if t.done != t.wanted || t.wanted < 1 {
		die("%d tasks ran, %d were submitted", t.done, t.wanted)
	}
}

func measureStreams(workers, producers, tasks int, task func(), t *tally) float64 {
	p := openPool(workers, queueLimit)
	ns := measureRate(producers, tasks, func(share int) {
		for n := 0; n < share; n++ {
			p.tasks <- task
		}
	}, t)
	p.close()
	t.check()
	return ns
}

func reportStreams(name string, workers, producers, tasks int) {
	t := &tally{}
	report(name, "task", measureStreams(workers, producers, tasks, t.add, t), "ns")
}

var burnSink uint64

// burn needs each result for the next step; neither a clock nor memory.
func burn(iterations uint64) uint64 {
	x := iterations | 1
	for i := uint64(0); i < iterations; i++ {
		x = x*6364136223846793005 + 1442695040888963407
	}
	return x
}

// burnRounds gives nanoseconds per call, several times.
func burnRounds(iterations uint64) []float64 {
	const rounds, calls = 9, 4000
	var costs [rounds]float64
	for i := range costs {
		start := nowNs()
		for n := 0; n < calls; n++ {
			burnSink += burn(iterations)
		}
		costs[i] = float64(nowNs()-start) / calls
	}
	return costs[:]
}

func calibrateBurn() uint64 {
	const probe = 1000
	burnRounds(probe)
	costs := burnRounds(probe)
	median(costs)
	return uint64(probe*1000/costs[0] + 0.5)
}

func runMicroseconds(name string, tasks int) {
	t := &tally{}
	iterations := calibrateBurn()
	before := median(burnRounds(iterations))
	// The result goes nowhere shared; the comparison only keeps the loop alive.
	ns := measureStreams(2, 1, tasks, func() {
		if burn(iterations) == 0 {
			panic("cannot be")
		}
		t.add()
	}, t)
	after := median(burnRounds(iterations))
	ideal := (before + after) / 2 / 2
	report(name, "task", ns, "ns")
	report(name, "ideal", ideal, "ns")
	report(name, "over_ideal", ns/ideal, "x")
}
