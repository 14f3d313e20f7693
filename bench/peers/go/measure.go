package main

import (
	"fmt"
	"os"
	"runtime"
	"sort"
	"syscall"
	"time"
)

var processStart = time.Now()

// nowNs is monotonic.
func nowNs() int64 { return int64(time.Since(processStart)) }

// cpuNs is the CPU time of the whole process.
func cpuNs() int64 {
	var usage syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage); err != nil {
		die("getrusage: %v", err)
	}
	return usage.Utime.Nano() + usage.Stime.Nano()
}

func spinUntil(untilNs int64) {
	for nowNs() < untilNs {
	}
}

// heapBytes counts what lives on the heap after a collection.
func heapBytes() int64 {
	var stats runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&stats)
	return int64(stats.HeapAlloc)
}

// percentile sorts values.
func percentile(values []int64, percent float64) float64 {
	sort.Slice(values, func(i, j int) bool { return values[i] < values[j] })
	index := int(percent / 100 * float64(len(values)))
	if index >= len(values) {
		index = len(values) - 1
	}
	return float64(values[index])
}

func median(values []float64) float64 {
	sort.Float64s(values)
	return values[len(values)/2]
}

func report(workload, metric string, value float64, unit string) {
	fmt.Printf("%s\t%s\t%.6g\t%s\n", workload, metric, value, unit)
}

func die(format string, args ...interface{}) {
	fmt.Fprintf(os.Stderr, format+"\n", args...)
	os.Exit(1)
}
