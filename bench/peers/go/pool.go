package main

import "sync"

// pool is the ordinary Go program: N goroutines range over a buffered channel of functions.
type pool struct {
	tasks   chan func()
	workers sync.WaitGroup
}

func openPool(workers, queueLimit int) *pool {
	p := &pool{tasks: make(chan func(), queueLimit)}
	p.workers.Add(workers)
	for i := 0; i < workers; i++ {
		go func() {
			defer p.workers.Done()
			for task := range p.tasks {
				task()
			}
		}()
	}
	return p
}

func (p *pool) close() {
	close(p.tasks)
	p.workers.Wait()
}
