// Goroutines that compute and never call into the runtime.
package main

import (
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

var hogsComputed atomic.Uint64

func multiply(rounds uint64) uint64 {
	x := rounds | 1
	for i := uint64(0); i < rounds; i++ {
		x = x*6364136223846793005 + 1442695040888963407
	}
	return x
}

func percentile(sorted []time.Duration, share float64) float64 {
	return milliseconds(sorted[int(float64(len(sorted)-1)*share)])
}

// Ticker: how late a goroutine is that sleeps for 1 ms again and again, beside two hogs for each P.
func ticker() {
	var over atomic.Bool
	var hogs sync.WaitGroup
	for i := 0; i < 2*procs; i++ {
		hogs.Add(1)
		go func() {
			sum := uint64(0)
			for !over.Load() {
				sum += multiply(1000)
			}
			hogsComputed.Add(sum)
			hogs.Done()
		}()
	}
	var late []time.Duration
	for end := time.Now().Add(window(5 * time.Second)); time.Now().Before(end); {
		due := time.Now().Add(time.Millisecond)
		time.Sleep(time.Millisecond)
		late = append(late, time.Since(due))
	}
	over.Store(true)
	hogs.Wait()
	slices.Sort(late)
	report("ticker_p50", percentile(late, 0.5), "ms")
	report("ticker_p99", percentile(late, 0.99), "ms")
	report("ticker_max", percentile(late, 1), "ms")
}
