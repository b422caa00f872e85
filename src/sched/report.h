// How goroutines show in the reports of a process that ends: exceptions that escape, fatal
// errors, stack overflows.
#pragma once

#include "base/print.h"
#include "goroutine/g.h"

namespace magpie::rt {

// goroutine 17 "name"
void print_name(printer&, const G&);

// For the process; later calls do nothing.
void install_reports();

}  // namespace magpie::rt
