package main

import (
	"sync/atomic"
	"time"
)

// W7: a million delayed tasks, inserted and then cancelled in the order of insertion.

const (
	timersCount   = 1_000_000
	timersPasses  = 3
	delayMsMin    = 60_000
	delayMsSpread = 3_600_000
)

func nextDelay(state *uint64) time.Duration {
	*state ^= *state << 13
	*state ^= *state >> 7
	*state ^= *state << 17
	return time.Duration(delayMsMin+*state%delayMsSpread) * time.Millisecond
}

func timeInserts(timers []*time.Timer, delays []time.Duration, fired *int64) float64 {
	start := nowNs()
	for i := range timers {
		timers[i] = time.AfterFunc(delays[i], func() { atomic.AddInt64(fired, 1) })
	}
	return float64(nowNs()-start) / float64(len(timers))
}

func timeCancels(timers []*time.Timer) float64 {
	stopped := 0
	start := nowNs()
	for i, timer := range timers {
		if timer.Stop() {
			stopped++
		}
		timers[i] = nil
	}
	elapsed := nowNs() - start
	if stopped != len(timers) {
		die("%d timers were cancelled, %d were inserted", stopped, len(timers))
	}
	return float64(elapsed) / float64(len(timers))
}

func runTimers(name string, tasks int) {
	count := orDefault(tasks, timersCount)
	delays := make([]time.Duration, count)
	state, fired := uint64(88172645463325252), int64(0)
	for i := range delays {
		delays[i] = nextDelay(&state)
	}
	timers := make([]*time.Timer, count) // the references are not counted
	empty := heapBytes()
	timeInserts(timers, delays, &fired)
	full := heapBytes()
	timeCancels(timers)
	inserts, cancels := make([]float64, timersPasses), make([]float64, timersPasses)
	for i := range inserts {
		inserts[i] = timeInserts(timers, delays, &fired)
		cancels[i] = timeCancels(timers)
	}
	if fired != 0 {
		die("%d timers fired", fired)
	}
	report(name, "insert", median(inserts), "ns")
	report(name, "cancel", median(cancels), "ns")
	report(name, "bytes", float64(full-empty)/float64(count), "bytes")
}
