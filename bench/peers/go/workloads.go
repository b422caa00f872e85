// The workloads of bench/run, in Go. One measurement per run of the program:
//
//	workloads <name> <procs> [divisor]
//
// prints "workload=<name> procs=<n> value=<number> unit=<unit>", one line per result. The counts
// are divided by the divisor, to see quickly whether everything runs. ../magpie is the same program
// for magpie, file by file: change both. Where Go offers several ways, the cheapest is used here.
package main

import (
	"fmt"
	"maps"
	"os"
	"runtime"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

var procs, divisor = 1, 1

func count(n int) int { return max(1, n/divisor) }

func window(d time.Duration) time.Duration {
	return max(50*time.Millisecond, d/time.Duration(divisor))
}

func report(name string, value float64, unit string) {
	fmt.Printf("workload=%s procs=%d value=%.3f unit=%s\n", name, procs, value, unit)
}

func fail(what string) {
	fmt.Fprintln(os.Stderr, "workloads:", what)
	os.Exit(1)
}

func perOperation(elapsed time.Duration, operations int) float64 {
	return float64(elapsed.Nanoseconds()) / float64(operations)
}

func milliseconds(d time.Duration) float64 { return float64(d.Nanoseconds()) / 1e6 }

func cpuTime() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		fail(err.Error())
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// How long it takes so many goroutines to do the work, all of them the same.
func together(goroutines int, work func()) time.Duration {
	var all sync.WaitGroup
	start := time.Now()
	for i := 0; i < goroutines; i++ {
		all.Add(1)
		go func() {
			work()
			all.Done()
		}()
	}
	all.Wait()
	return time.Since(start)
}

// Yield: so many goroutines, each giving way so often.
func yieldAll(goroutines, yields int) time.Duration {
	return together(goroutines, func() {
		for i := 0; i < yields; i++ {
			runtime.Gosched()
		}
	})
}

func yield(name string, goroutines, total int) {
	yields := max(1, count(total)/goroutines)
	yieldAll(goroutines, max(1, yields/10))
	report(name, perOperation(yieldAll(goroutines, yields), goroutines*yields), "ns/op")
}

// Spawn: rounds of so many empty goroutines and a wait for all of them.
func spawnAll(batch, rounds int) time.Duration {
	var all sync.WaitGroup
	start := time.Now()
	for r := 0; r < rounds; r++ {
		all.Add(batch)
		for i := 0; i < batch; i++ {
			go all.Done()
		}
		all.Wait()
	}
	return time.Since(start)
}

func spawn(name string, batch int) {
	rounds := max(1, count(4_000_000)/batch)
	spawnAll(batch, max(1, rounds/10))
	report(name, perOperation(spawnAll(batch, rounds), batch*rounds), "ns/op")
}

// Skynet: a tree of goroutines, ten children each, that adds up the numbers of its leaves.
func skynet(first, size int) int {
	if size == 1 {
		return first
	}
	var node struct {
		all  sync.WaitGroup
		sums [10]int
	}
	node.all.Add(10)
	for i := 0; i < 10; i++ {
		go func() {
			node.sums[i] = skynet(first+i*(size/10), size/10)
			node.all.Done()
		}()
	}
	node.all.Wait()
	sum := 0
	for _, s := range node.sums {
		sum += s
	}
	return sum
}

func skynetWorkload() {
	size := 1_000_000
	for size > 10 && size > count(1_000_000) {
		size /= 10
	}
	var elapsed time.Duration
	for pass := 0; pass < 2; pass++ { // the second finds stacks and heap warm
		start := time.Now()
		sum := skynet(0, size)
		elapsed = time.Since(start)
		if sum != size*(size-1)/2 {
			fail("skynet: wrong sum")
		}
	}
	report("skynet", milliseconds(elapsed), "ms")
}

// Fib: fork n-1, compute n-2 here, join.
func fib(n int) int {
	if n < 2 {
		return n
	}
	var other struct {
		done  sync.WaitGroup
		value int
	}
	other.done.Add(1)
	go func() {
		other.value = fib(n - 1)
		other.done.Done()
	}()
	here := fib(n - 2)
	other.done.Wait()
	return other.value + here
}

func plainFib(n int) int {
	if n < 2 {
		return n
	}
	return plainFib(n-1) + plainFib(n-2)
}

func fibWorkload() {
	n := 27
	if divisor > 1 {
		n = 15
	}
	fib(n - 4)
	start := time.Now()
	result := fib(n)
	elapsed := time.Since(start)
	if result != plainFib(n) {
		fail("fib: wrong result")
	}
	report("fib", perOperation(elapsed, plainFib(n+1)-1), "ns/op") // one task per inner node
}

// A crowd of goroutines that all wait at one door.
type crowd struct {
	door chan struct{}
	all  sync.WaitGroup
	here atomic.Int64
}

func newCrowd() *crowd { return &crowd{door: make(chan struct{})} }

func (c *crowd) add(goroutines int) {
	c.all.Add(goroutines)
	for i := 0; i < goroutines; i++ {
		go func() {
			c.here.Add(1)
			<-c.door
			c.all.Done()
		}()
	}
	for c.here.Load() < int64(goroutines) {
		runtime.Gosched()
	}
}

func residentBytes() float64 {
	text, err := os.ReadFile("/proc/self/statm")
	if err != nil {
		fail(err.Error())
	}
	pages, err := strconv.Atoi(strings.Fields(string(text))[1])
	if err != nil {
		fail(err.Error())
	}
	return float64(pages * os.Getpagesize())
}

// Parked: memory of a goroutine that waits, time to make it and to wake it. No warm-up: a million
// goroutines nobody has had before are the point.
func parked() {
	goroutines := count(1_000_000)
	bytes := residentBytes()
	start := time.Now()
	c := newCrowd()
	c.add(goroutines)
	created := time.Since(start)
	time.Sleep(20 * time.Millisecond) // the last one is on its way to the door
	bytes = residentBytes() - bytes
	start = time.Now()
	close(c.door)
	c.all.Wait()
	woken := time.Since(start)
	report("parked_bytes", bytes/float64(goroutines), "bytes")
	report("parked_create", perOperation(created, goroutines), "ns/op")
	report("parked_wake", perOperation(woken, goroutines), "ns/op")
}

// Idle: what 1000 waiting goroutines cost, in percent of one CPU.
func idle() {
	c := newCrowd()
	c.add(1000)
	time.Sleep(100 * time.Millisecond)
	used, start := cpuTime(), time.Now()
	time.Sleep(window(2 * time.Second))
	used, elapsed := cpuTime()-used, time.Since(start)
	close(c.door)
	c.all.Wait()
	report("idle", 100*float64(used)/float64(elapsed), "percent")
}

// Blocking: how much of their rate CPU-bound goroutines, one per P, keep beside 10,000 goroutines
// that block their threads: all of them in one long nap, and (churn) in naps of a second, again
// and again.
func blocking() {
	type worker struct {
		units atomic.Int64
		_     [120]byte
	}
	debug.SetMaxThreads(20_000) // Go ends the process at 10,000
	workers := make([]worker, procs)
	var stop atomic.Bool
	var all sync.WaitGroup
	for i := range workers {
		all.Add(1)
		go func() {
			state := uint64(i) + 1
			for !stop.Load() {
				for step := 0; step < 10_000; step++ {
					state ^= state << 13
					state ^= state >> 7
					state ^= state << 17
				}
				workers[i].units.Add(int64(state&1) | 1) // 1, which the compiler cannot know
			}
			all.Done()
		}()
	}
	rate := func() float64 {
		units := func() (sum int64) {
			for i := range workers {
				sum += workers[i].units.Load()
			}
			return
		}
		before, start := units(), time.Now()
		time.Sleep(window(time.Second))
		return float64(units()-before) / time.Since(start).Seconds()
	}
	rate()
	alone := rate()

	sleepers := count(10_000)
	var inShort, inLong atomic.Int64
	var long atomic.Bool
	nap := func(d time.Duration) {
		t := syscall.NsecToTimespec(window(d).Nanoseconds())
		syscall.Nanosleep(&t, nil)
	}
	for i := 0; i < sleepers; i++ {
		all.Add(1)
		go func() {
			inShort.Add(1)
			for !long.Load() {
				nap(time.Second)
			}
			inLong.Add(1)
			for !stop.Load() {
				nap(5 * time.Second)
			}
			all.Done()
		}()
	}
	waitFor := func(number *atomic.Int64) {
		for number.Load() < int64(sleepers) {
			time.Sleep(10 * time.Millisecond)
		}
		time.Sleep(100 * time.Millisecond)
	}
	waitFor(&inShort)
	churn := rate()
	long.Store(true)
	waitFor(&inLong)
	beside := rate()
	stop.Store(true)
	all.Wait()
	report("blocking10k", 100*beside/alone, "percent")
	report("blocking10k_churn", 100*churn/alone, "percent")
}

func main() {
	workloads := map[string]func(){
		"yield2":         func() { yield("yield2", 2, 6_000_000) },
		"yield1000":      func() { yield("yield1000", 1000, 3_000_000) },
		"spawn1000":      func() { spawn("spawn1000", 1000) },
		"spawn_join":     func() { spawn("spawn_join", 1) },
		"skynet":         skynetWorkload,
		"fib":            fibWorkload,
		"parked":         parked,
		"idle":           idle,
		"blocking10k":    blocking,
		"pingpong":       pingpong,
		"chan_1p1c":      func() { pass("chan_1p1c", 1, 1) },
		"chan_4p4c":      func() { pass("chan_4p4c", 4, 4) },
		"select2":        func() { choose("select2", chooseOf2) },
		"select8":        func() { choose("select8", chooseOf8) },
		"mutex":          mutex,
		"mutex_park":     mutexPark,
		"shared_readers": sharedReaders,
		"shared_mixed":   sharedMixed,
		"sleepers":       sleepers,
		"short_sleep":    shortSleep,
		"timers":         timers,
		"timers_fire":    timersFire,
		"context":        contextWorkload,
		"ticker":         ticker,
		"file_reads":     fileReads,
		"echo_server":    echoServer,
		"hello_server":   helloServer,
	}
	number := func(i int) int {
		n, err := strconv.Atoi(os.Args[i])
		if err != nil || n < 1 {
			fail("not a positive number: " + os.Args[i])
		}
		return n
	}
	if len(os.Args) < 3 || len(os.Args) > 4 || workloads[os.Args[1]] == nil {
		fmt.Fprintln(os.Stderr, "usage: workloads <name> procs [divisor], where the name is one of",
			strings.Join(slices.Sorted(maps.Keys(workloads)), " "))
		os.Exit(2)
	}
	procs = number(2)
	if len(os.Args) == 4 {
		divisor = number(3)
	}
	runtime.GOMAXPROCS(procs)
	workloads[os.Args[1]]()
}
