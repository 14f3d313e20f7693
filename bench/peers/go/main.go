// Peers: a Go pool on a buffered channel, and time.AfterFunc, for the workloads of bench/common; and tasks that can be
// asked about, for those of bench/engine.c.
package main

import (
	"os"
	"strconv"
)

// A workload gets 0 tasks when it is to choose how many take about half a second.
var workloads = map[string]func(name string, tasks int){
	"W1":  func(name string, tasks int) { reportStreams(name, 2, 1, tasks) },
	"W1x": func(name string, tasks int) { reportStreams(name, 8, 1, tasks) },
	"W2":  func(name string, tasks int) { reportStreams(name, 2, 4, tasks) },
	"W3":  runMicroseconds,
	"W4":  runRoundTrips,
	"W4i": runAfterIdleness,
	"W5":  runPaced,
	"W6":  runDepths,
	"W7":  runTimers,

	"E1":   func(name string, tasks int) { reportTracked(name, 1, tasks) },
	"E1x4": func(name string, tasks int) { reportTracked(name, 4, tasks) },
	"E2":   runKeyed,
	"E3":   runRetried,
	"E4":   runWatched,
	"E5":   runWeights,
	"E6":   runDelayed,
	"E7":   runRetained,
	"E8":   runLoaded,
}

func main() {
	if len(os.Args) < 2 || len(os.Args) > 3 {
		die("usage: %s WORKLOAD [tasks]", os.Args[0])
	}
	tasks := 0
	if len(os.Args) == 3 {
		var err error
		if tasks, err = strconv.Atoi(os.Args[2]); err != nil {
			die("not a number of tasks: %s", os.Args[2])
		}
	}
	run, ok := workloads[os.Args[1]]
	if !ok {
		die("go has no workload %s", os.Args[1])
	}
	run(os.Args[1], tasks)
}
