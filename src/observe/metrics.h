// The same metrics from numbers that were read before.
#pragma once

#include <string>
#include <vector>

#include <magpie/metrics.h>

#include "sched/meters.h"

namespace magpie::rt {

std::vector<metrics::sample> samples_of(const meters&);
std::string prometheus_text(const meters&);

// A number as Prometheus, JSON and C++ read it, with all its digits.
std::string number_text(double);

}  // namespace magpie::rt
