// What belongs to one goroutine beyond its G, for the few that have any of it: a name, a thread
// it is locked to, goroutine_locals.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include <magpie/go.h>

#include "goroutine/g.h"
#include "trace/stream.h"

namespace magpie::rt {

struct M;

// The value of one goroutine_local in one goroutine.
struct local_value {
  detail::local_key key;
  void* value;
  void (*destroy)(void* value);
  local_value* next;
};

struct goroutine_extra {
  std::string name;
  M* locked_to = nullptr;
  int lock_depth = 0;
  local_value* locals = nullptr;
  // In a trace: the innermost of each, by number.
  std::uint64_t task = 0;
  std::uint64_t region = 0;
};

// The running goroutine's, made if need be. User code, outside the gate: it allocates.
goroutine_extra& extra_of(G&);

// For those who look from outside; of a longer name the beginning. Returns its size, 0 for none.
inline constexpr std::size_t k_longest_name = trace::k_longest_name;
std::size_t copy_name(const G&, char (&to)[k_longest_name]);

// At the goroutine's end: destroys its locals, newest first, and those they make meanwhile.
void destroy_locals(G&);
// The same, and all else.
void drop_extra(G&);

}  // namespace magpie::rt
