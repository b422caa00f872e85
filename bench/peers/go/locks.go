// Mutexes.
package main

import (
	"runtime"
	"sync"
	"sync/atomic"
	"time"
)

// Mutex: a hundred goroutines count under one lock.
const lockers = 100

func mutex() {
	var lock sync.Mutex
	counter := 0
	countTo := func(each int) time.Duration {
		counter = 0
		elapsed := together(lockers, func() {
			for i := 0; i < each; i++ {
				lock.Lock()
				counter++
				lock.Unlock()
			}
		})
		if counter != lockers*each {
			fail("mutex: wrong count")
		}
		return elapsed
	}
	each := count(20_000)
	countTo(max(1, each/10))
	report("mutex", perOperation(countTo(each), lockers*each), "ns/op")
}

// The same, but whoever holds the lock gives way, so that nearly everyone who wants it waits.
func mutexPark() {
	var lock sync.Mutex
	counter := 0
	countTo := func(each int) time.Duration {
		counter = 0
		elapsed := together(lockers, func() {
			for i := 0; i < each; i++ {
				lock.Lock()
				counter++
				runtime.Gosched()
				lock.Unlock()
			}
		})
		if counter != lockers*each {
			fail("mutex_park: wrong count")
		}
		return elapsed
	}
	each := count(5_000)
	countTo(max(1, each/10))
	report("mutex_park", perOperation(countTo(each), lockers*each), "ns/op")
}

// Shared readers: four goroutines per P read under a lock that nobody takes to write.
func sharedReaders() {
	readers := 4 * procs
	var lock sync.RWMutex
	one := 1
	readAll := func(each int) time.Duration {
		var sum atomic.Int64
		elapsed := together(readers, func() {
			mine := 0
			for i := 0; i < each; i++ {
				lock.RLock()
				mine += one
				lock.RUnlock()
			}
			sum.Add(int64(mine))
		})
		if sum.Load() != int64(readers*each) {
			fail("shared_readers: wrong sum")
		}
		return elapsed
	}
	each := max(1, count(4_000_000)/readers)
	readAll(max(1, each/10))
	report("shared_readers", perOperation(readAll(each), readers*each), "ns/op")
}

// Shared mixed: a hundred goroutines, of whose operations one in ten writes.
const readsPerWrite = 9

func sharedMixed() {
	var lock sync.RWMutex
	one := 1
	runAll := func(each int) time.Duration {
		counter := 0
		var sum atomic.Int64
		elapsed := together(lockers, func() {
			mine := 0
			for i := 0; i < each; i++ {
				if i%(readsPerWrite+1) == 0 {
					lock.Lock()
					counter++
					lock.Unlock()
				} else {
					lock.RLock()
					mine += one
					lock.RUnlock()
				}
			}
			sum.Add(int64(mine))
		})
		if int(sum.Load())+counter != lockers*each {
			fail("shared_mixed: wrong sum")
		}
		return elapsed
	}
	each := count(30_000)
	runAll(max(1, each/10))
	report("shared_mixed", perOperation(runAll(each), lockers*each), "ns/op")
}
