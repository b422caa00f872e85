// Contexts.
package main

import (
	"context"
	"time"
)

// Context: a tree of a thousand below one root, ten branches with 99 each, made and cancelled.
const branches, leaves = 10, 99

func cancelTrees(rounds int) time.Duration {
	contexts := make([]context.Context, 0, branches*(1+leaves))
	start := time.Now()
	for r := 0; r < rounds; r++ {
		contexts = contexts[:0]
		root, cancel := context.WithCancel(context.Background())
		for b := 0; b < branches; b++ {
			branch, _ := context.WithCancel(root)
			contexts = append(contexts, branch)
			for l := 0; l < leaves; l++ {
				leaf, _ := context.WithCancel(branch)
				contexts = append(contexts, leaf)
			}
		}
		cancel()
		if contexts[len(contexts)-1].Err() == nil {
			fail("context: the last leaf is not cancelled")
		}
	}
	return time.Since(start)
}

func contextWorkload() {
	rounds := count(1000)
	cancelTrees(max(1, rounds/10))
	elapsed := cancelTrees(rounds)
	report("context", perOperation(elapsed, rounds*branches*(1+leaves)), "ns/op")
}
