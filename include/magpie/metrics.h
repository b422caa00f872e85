// Numbers about the runtime, for whoever watches a program in production.
//
//   GET /metrics:  answer(metrics::prometheus());
//
// Reading them stops nobody: counters belong to Ps, which write them without a lock, and are added
// up here. The numbers are read one after the other while everything goes on, so two that belong
// together may be apart by what happened in between; the goroutines by state always add up to all.
//
// Of the caller's runtime: inside a goroutine its own, elsewhere the default one. Any thread.
#pragma once

#include <string>
#include <vector>

#include <magpie/export.h>

namespace magpie::metrics {

struct sample {
  std::string name;
  double value;
};

// All of them. Those that Go has are named as in its runtime/metrics ("/sched/gomaxprocs:threads"),
// the others alike, below /magpie. A histogram is flattened: a sample for each bucket, cumulative,
// with its upper bound ("/sched/latencies:seconds{le=0.001024}"), then ".count" and ".sum".
MAGPIE_API std::vector<sample> read();

// The same as text in Prometheus' exposition format 0.0.4. The names are those under which Go's
// client for Prometheus has them (go_goroutines, go_sched_latencies_seconds), so that dashboards
// for Go programs show magpie's as well; the others begin with magpie_.
MAGPIE_API std::string prometheus();

}  // namespace magpie::metrics
