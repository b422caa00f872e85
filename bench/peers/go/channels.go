// Channels and select.
package main

import (
	"sync"
	"sync/atomic"
	"time"
)

// Ping-pong: one ball between two goroutines, over two unbuffered channels.
func pingpongAll(rounds int) time.Duration {
	ping, pong := make(chan int), make(chan int)
	go func() {
		for ball := range ping {
			pong <- ball
		}
	}()
	start := time.Now()
	for r := 0; r < rounds; r++ {
		ping <- r
		if <-pong != r {
			fail("pingpong: not the ball that was sent")
		}
	}
	elapsed := time.Since(start)
	close(ping)
	return elapsed
}

func pingpong() {
	rounds := count(1_000_000)
	pingpongAll(max(1, rounds/10))
	report("pingpong", perOperation(pingpongAll(rounds), rounds), "ns/op")
}

// Pass: items from producers to consumers, over one channel with room for 128.
func passAll(producers, consumers, each int) time.Duration {
	line := make(chan int, 128)
	var sent, received sync.WaitGroup
	var sum atomic.Int64
	start := time.Now()
	for i := 0; i < producers; i++ {
		sent.Add(1)
		go func() {
			for item := 0; item < each; item++ {
				line <- item
			}
			sent.Done()
		}()
	}
	for i := 0; i < consumers; i++ {
		received.Add(1)
		go func() {
			mine := 0
			for item := range line {
				mine += item
			}
			sum.Add(int64(mine))
			received.Done()
		}()
	}
	sent.Wait()
	close(line)
	received.Wait()
	elapsed := time.Since(start)
	if sum.Load() != int64(producers*(each*(each-1)/2)) {
		fail("channel: wrong sum")
	}
	return elapsed
}

func pass(name string, producers, consumers int) {
	each := max(1, count(4_000_000)/producers)
	passAll(producers, consumers, max(1, each/10))
	report(name, perOperation(passAll(producers, consumers, each), producers*each), "ns/op")
}

// Select: one goroutine takes an item from any of several channels, all ready, and puts it back.
func fullChannels(channels []chan int) {
	for i := range channels {
		channels[i] = make(chan int, 1)
		channels[i] <- i
	}
}

func chooseOf2(rounds int) time.Duration {
	var c [2]chan int
	fullChannels(c[:])
	start := time.Now()
	for r := 0; r < rounds; r++ {
		select {
		case item := <-c[0]:
			c[0] <- item
		case item := <-c[1]:
			c[1] <- item
		}
	}
	return time.Since(start)
}

func chooseOf8(rounds int) time.Duration {
	var c [8]chan int
	fullChannels(c[:])
	start := time.Now()
	for r := 0; r < rounds; r++ {
		select {
		case item := <-c[0]:
			c[0] <- item
		case item := <-c[1]:
			c[1] <- item
		case item := <-c[2]:
			c[2] <- item
		case item := <-c[3]:
			c[3] <- item
		case item := <-c[4]:
			c[4] <- item
		case item := <-c[5]:
			c[5] <- item
		case item := <-c[6]:
			c[6] <- item
		case item := <-c[7]:
			c[7] <- item
		}
	}
	return time.Since(start)
}

func choose(name string, chooseOften func(rounds int) time.Duration) {
	rounds := count(1_000_000)
	chooseOften(max(1, rounds/10))
	report(name, perOperation(chooseOften(rounds), rounds), "ns/op")
}
