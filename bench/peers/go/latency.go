package main

import (
	"sync/atomic"
	"time"
)

// W4, W4i, W5: how long one task waits when there is nothing else to do.

const (
	roundTripsMax = 100_000
	roundTripsMin = 20_000
	roundTripsNs  = 1_500_000_000
	idleSamples   = 2000
	pacedSamples  = 25_000
	idlenessNs    = 300_000
	slotNs        = 20_000
)

func orDefault(tasks, otherwise int) int {
	if tasks > 0 {
		return tasks
	}
	return otherwise
}

func runRoundTrips(name string, tasks int) {
	limit := orDefault(tasks, roundTripsMax)
	p := openPool(2, queueLimit)
	done := make(chan struct{})
	ran := 0
	task := func() {
		ran++
		done <- struct{}{}
	}
	warmUp := limit/20 + 1
	for i := 0; i < warmUp; i++ {
		p.tasks <- task
		<-done
	}
	trips := make([]int64, 0, limit)
	begin := nowNs()
	for len(trips) < limit {
		start := nowNs()
		if tasks == 0 && len(trips) >= roundTripsMin && start-begin > roundTripsNs {
			break
		}
		p.tasks <- task
		<-done
		trips = append(trips, nowNs()-start)
	}
	p.close()
	if ran != len(trips)+warmUp {
		die("%d tasks ran, %d were submitted", ran, len(trips)+warmUp)
	}
	report(name, "p50", percentile(trips, 50), "ns")
	report(name, "p99", percentile(trips, 99), "ns")
}

type sample struct {
	submitNs, acceptedNs, startNs int64
	task                          func()
	_                             [32]byte // a cache line each
}

// makeSamples also makes the closures, off the clock.
func makeSamples(count int) []sample {
	samples := make([]sample, count)
	for i := range samples {
		s := &samples[i]
		s.task = func() { atomic.StoreInt64(&s.startNs, nowNs()) }
	}
	return samples
}

func (s *sample) submit(p *pool) {
	s.submitNs = nowNs()
	p.tasks <- s.task
	s.acceptedNs = nowNs()
}

func (s *sample) await() {
	for atomic.LoadInt64(&s.startNs) == 0 {
		if nowNs() > s.submitNs+1_000_000_000 {
			die("a task did not start within a second")
		}
	}
}

func startPercentile(samples []sample, percent float64) float64 {
	values := make([]int64, len(samples))
	for i := range samples {
		values[i] = samples[i].startNs - samples[i].submitNs
	}
	return percentile(values, percent)
}

func submitPercentile(samples []sample, percent float64) float64 {
	values := make([]int64, len(samples))
	for i := range samples {
		values[i] = samples[i].acceptedNs - samples[i].submitNs
	}
	return percentile(values, percent)
}

func idleCores() float64 {
	time.Sleep(50 * time.Millisecond)
	start, startCPU := nowNs(), cpuNs()
	time.Sleep(time.Second)
	return float64(cpuNs()-startCPU) / float64(nowNs()-start)
}

func runAfterIdleness(name string, tasks int) {
	count := orDefault(tasks, idleSamples)
	warmUp := count/20 + 1
	samples := makeSamples(count + warmUp)
	p := openPool(2, queueLimit)
	for i := range samples {
		spinUntil(nowNs() + idlenessNs)
		samples[i].submit(p)
		samples[i].await()
	}
	idle := idleCores()
	p.close()
	report(name, "start_p50", startPercentile(samples[warmUp:], 50), "ns")
	report(name, "start_p99", startPercentile(samples[warmUp:], 99), "ns")
	report(name, "submit_p50", submitPercentile(samples[warmUp:], 50), "ns")
	report(name, "idle_cpu", idle, "cores")
}

func submitPaced(p *pool, samples []sample) {
	begin := nowNs()
	for i := range samples {
		spinUntil(begin + int64(i)*slotNs)
		samples[i].submit(p)
	}
}

func runPaced(name string, tasks int) {
	count := orDefault(tasks, pacedSamples)
	warmUp := count/10 + 1
	samples := makeSamples(count + warmUp)
	p := openPool(2, queueLimit)
	submitPaced(p, samples[:warmUp])
	start, startCPU := nowNs(), cpuNs()
	submitPaced(p, samples[warmUp:])
	cores := float64(cpuNs()-startCPU) / float64(nowNs()-start)
	for i := range samples {
		samples[i].await()
	}
	p.close()
	report(name, "p50", startPercentile(samples[warmUp:], 50), "ns")
	report(name, "p99", startPercentile(samples[warmUp:], 99), "ns")
	report(name, "cpu", cores, "cores")
}
