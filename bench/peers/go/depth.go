package main

import "sync/atomic"

// W6: what a queued task weighs, and whether a deep queue makes tasks slower.

const depthMax = 1_000_000

type depthRun struct {
	ran, wanted int
	endNs       int64
	all         chan struct{}
}

func (r *depthRun) add() {
	if r.ran++; r.ran == r.wanted {
		r.endNs = nowNs()
		close(r.all)
	}
}

// passDepth fills the queue behind a gate that spins, calls whenFull, opens, and waits for the last.
// Each task is a closure of its own, as a task with an argument is in Go, unless one is given for all.
func passDepth(p *pool, depth int, perTask bool, whenFull func()) (fillNs, drainNs float64) {
	var isOpen, hasStarted, openNs int64
	run := &depthRun{wanted: depth, all: make(chan struct{})}
	p.tasks <- func() {
		atomic.StoreInt64(&hasStarted, 1)
		for atomic.LoadInt64(&isOpen) == 0 {
		}
		openNs = nowNs()
	}
	for atomic.LoadInt64(&hasStarted) == 0 {
	}
	shared := run.add
	start := nowNs()
	for i := 0; i < depth; i++ {
		if perTask {
			p.tasks <- func() { run.add() }
		} else {
			p.tasks <- shared
		}
	}
	full := nowNs()
	whenFull()
	atomic.StoreInt64(&isOpen, 1)
	<-run.all
	if run.ran != depth {
		die("%d tasks ran, %d were submitted", run.ran, depth)
	}
	return float64(full-start) / float64(depth), float64(run.endNs-openNs) / float64(depth)
}

func reportDepth(name string, p *pool, depth int, label string) {
	passes := depthMax / depth
	if passes > 101 {
		passes = 101
	}
	if passes < 3 {
		passes = 3
	}
	fills, drains := make([]float64, passes), make([]float64, passes)
	for i := range fills {
		fills[i], drains[i] = passDepth(p, depth, false, func() {})
	}
	report(name, "fill_"+label, median(fills), "ns")
	report(name, "drain_"+label, median(drains), "ns")
}

func runDepths(name string, tasks int) {
	depth := orDefault(tasks, depthMax)
	empty, full := heapBytes(), int64(0)
	p := openPool(1, depth)
	passDepth(p, depth, true, func() { full = heapBytes() })
	report(name, "bytes", float64(full-empty)/float64(depth), "bytes")
	if tasks == 0 {
		reportDepth(name, p, 1000, "1k")
		reportDepth(name, p, 10_000, "10k")
		reportDepth(name, p, 100_000, "100k")
		reportDepth(name, p, 1_000_000, "1M")
	}
	p.close()
}
