// Sleep and timers.
package main

import (
	"slices"
	"sync"
	"time"
)

// Numbers that look random, the same ones in every run and in every peer.
type numbers struct{ state uint64 }

func newNumbers() *numbers { return &numbers{0x9e3779b97f4a7c15} }

func (n *numbers) below(limit time.Duration) time.Duration {
	n.state ^= n.state << 13
	n.state ^= n.state >> 7
	n.state ^= n.state << 17
	return time.Duration(n.state % uint64(limit))
}

// Sleepers: a million goroutines that each sleep once, for 1 to 100 ms.
func sleepers() {
	goroutines := count(1_000_000)
	random := newNumbers()
	var all sync.WaitGroup
	used, start := cpuTime(), time.Now()
	all.Add(goroutines)
	for i := 0; i < goroutines; i++ {
		length := time.Millisecond + random.below(99*time.Millisecond)
		go func() {
			time.Sleep(length)
			all.Done()
		}()
	}
	all.Wait()
	used, elapsed := cpuTime()-used, time.Since(start)
	report("sleepers_wall", milliseconds(elapsed), "ms")
	report("sleepers_cpu", milliseconds(used), "ms")
}

// Short sleep: how long 50 us are when nothing else goes on.
func shortSleep() {
	lengths := make([]time.Duration, count(2000))
	for i := range lengths {
		start := time.Now()
		time.Sleep(50 * time.Microsecond)
		lengths[i] = time.Since(start)
	}
	slices.Sort(lengths)
	report("short_sleep", float64(lengths[len(lengths)/2].Nanoseconds())/1e3, "us")
}

// Timers: a million that are far from due are made, in no order, and stopped again.
func timersAll(number int) (added, stopped time.Duration) {
	random := newNumbers()
	pending := make([]*time.Timer, number)
	start := time.Now()
	for i := range pending {
		pending[i] = time.AfterFunc(time.Hour+random.below(time.Hour), func() {})
	}
	added = time.Since(start)
	start = time.Now()
	for _, timer := range pending {
		if !timer.Stop() {
			fail("timers: one was not pending")
		}
	}
	return added, time.Since(start)
}

func timers() {
	number := count(1_000_000)
	timersAll(max(1, number/10))
	added, stopped := timersAll(number)
	report("timers_add", perOperation(added, number), "ns/op")
	report("timers_stop", perOperation(stopped, number), "ns/op")
}

// Fire: a million timers become due within a millisecond, in no order. Timed from the first that
// is due to the end of the last goroutine, if all were made before that.
func fireAll(number int, lead time.Duration) (elapsed time.Duration, inTime bool) {
	random := newNumbers()
	var all sync.WaitGroup
	all.Add(number)
	done := all.Done
	due := time.Now().Add(lead)
	for i := 0; i < number; i++ {
		time.AfterFunc(time.Until(due)+random.below(time.Millisecond), done)
	}
	inTime = time.Now().Before(due)
	all.Wait()
	return time.Since(due), inTime
}

func timersFire() {
	number := count(1_000_000)
	lead := window(1500 * time.Millisecond)
	fireAll(number, lead) // all of them run at once: the next pass finds their stacks
	elapsed, inTime := fireAll(number, lead)
	for !inTime {
		lead *= 2
		elapsed, inTime = fireAll(number, lead)
	}
	report("timers_fire", perOperation(elapsed, number), "ns/op")
}
