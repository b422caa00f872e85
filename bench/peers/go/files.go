// Files.
package main

import (
	"os"
	"sync"
	"sync/atomic"
	"time"
)

const blockSize = 4096

// A file of 1 GiB, made by whoever comes first.
func benchFile(size int64) *os.File {
	path := os.Getenv("MAGPIE_BENCH_FILE")
	if path == "" {
		path = "file_reads.bin"
	}
	file, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		fail(err.Error())
	}
	if info, err := file.Stat(); err == nil && info.Size() >= size {
		return file
	}
	bytes := make([]byte, 1<<20)
	for i := range bytes {
		bytes[i] = byte(i)
	}
	for at := int64(0); at < size; at += int64(len(bytes)) {
		if _, err := file.WriteAt(bytes, at); err != nil {
			fail(err.Error())
		}
	}
	return file
}

// How much is added to the count in a second.
func rateOf(counted *atomic.Int64, length time.Duration) float64 {
	time.Sleep(length / 10)
	before, start := counted.Load(), time.Now()
	time.Sleep(length)
	return float64(counted.Load()-before) / time.Since(start).Seconds()
}

// What f returns while 64 goroutines read blocks at random, and count them.
func besideReaders(file *os.File, size int64, f func(reads *atomic.Int64) float64) float64 {
	var reads atomic.Int64
	var stop atomic.Bool
	var all sync.WaitGroup
	for i := 0; i < 64; i++ {
		all.Add(1)
		go func() {
			defer all.Done()
			random := uint64(i+1) * 0x9e3779b97f4a7c15
			block := make([]byte, blockSize)
			for !stop.Load() {
				random ^= random << 13
				random ^= random >> 7
				random ^= random << 17
				at := int64(random%uint64(size/blockSize)) * blockSize
				if n, err := file.ReadAt(block, at); n != blockSize || err != nil {
					fail("file_reads: a short read")
				}
				reads.Add(1)
			}
		}()
	}
	result := f(&reads)
	stop.Store(true)
	all.Wait()
	return result
}

// Reads: 64 goroutines read blocks at random. Then one computes beside them, and is compared with
// what it does alone.
func fileReads() {
	size := max(1<<20, int64(count(1<<30))&^(1<<20-1))
	file := benchFile(size)
	defer file.Close()
	reads := besideReaders(file, size, func(reads *atomic.Int64) float64 {
		return rateOf(reads, window(2*time.Second))
	})
	var rounds atomic.Int64
	var stop atomic.Bool
	var all sync.WaitGroup
	all.Add(1)
	go func() {
		defer all.Done()
		for !stop.Load() {
			compute()
			rounds.Add(1)
		}
	}()
	alone := rateOf(&rounds, window(500*time.Millisecond))
	beside := besideReaders(file, size, func(*atomic.Int64) float64 {
		return rateOf(&rounds, window(time.Second))
	})
	stop.Store(true)
	all.Wait()
	report("file_reads", reads, "reads/s")
	report("file_beside", 100*beside/alone, "percent")
}

var computed atomic.Uint64

// About 20 us of arithmetic.
func compute() {
	x := computed.Load() | 1
	for i := 0; i < 20000; i++ {
		x ^= x << 13
		x ^= x >> 7
		x ^= x << 17
	}
	computed.Store(x)
}
