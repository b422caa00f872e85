#include "os/backtrace.h"

#include <dlfcn.h>
#include <unwind.h>

#include <algorithm>

#include "base/atomic.h"

namespace magpie::rt::os {
namespace {

constexpr std::size_t k_innermost = 32;
constexpr std::size_t k_outermost = 8;

// `inside` is an address within the instruction. For a call that is not `pc`, which it returns to:
// when nothing follows the call, `pc` belongs to the next function.
void print_place(printer& out, std::uintptr_t pc, std::uintptr_t inside) {
  out << hex{pc};
  Dl_info info{};
  if (dladdr(reinterpret_cast<void*>(inside), &info) == 0) return;
  if (info.dli_sname != nullptr) {
    const auto start = reinterpret_cast<std::uintptr_t>(info.dli_saddr);
    out << " in " << info.dli_sname << '+' << hex{pc - start};
  }
  if (info.dli_fname != nullptr) {
    const auto base = reinterpret_cast<std::uintptr_t>(info.dli_fbase);
    out << " (" << info.dli_fname << '+' << hex{pc - base} << ')';
  }
}

// Keeps both ends of a stack of any depth. Equal neighbours, which is what a recursion looks
// like, are kept as one line with a count.
class frame_collector {
 public:
  void add_call(std::uintptr_t return_address) { add(return_address, return_address - 1); }
  void add_interrupted(std::uintptr_t pc) { add(pc, pc); }
  std::size_t count() const { return frames_; }

  void print(printer& out) const {
    const std::size_t inner = std::min(lines_, k_innermost);
    const std::size_t outer = std::min(lines_ - inner, k_outermost);
    for (std::size_t i = 0; i < inner; ++i) print_line(out, first_[i]);
    if (lines_ > inner + outer) {
      const std::size_t resumed = last_[(lines_ - outer) % k_outermost].number;
      const line& before = first_[k_innermost - 1];
      out << "  ... " << resumed - before.number - before.times << " more frames ...\n";
    }
    for (std::size_t i = lines_ - outer; i < lines_; ++i) print_line(out, last_[i % k_outermost]);
  }

 private:
  struct line {
    std::uintptr_t pc;
    std::uintptr_t inside;  // as for print_place
    std::size_t number;     // of the first frame it stands for
    std::size_t times;
  };

  void add(std::uintptr_t pc, std::uintptr_t inside) {
    ++frames_;
    if (lines_ != 0 && last_line().pc == pc) {
      ++last_line().times;
      return;
    }
    ++lines_;
    last_line() = {pc, inside, frames_ - 1, 1};
  }

  line& last_line() {
    const std::size_t i = lines_ - 1;
    return i < k_innermost ? first_[i] : last_[i % k_outermost];
  }

  static void print_line(printer& out, const line& l) {
    out << "  #" << l.number << ' ';
    print_place(out, l.pc, l.inside);
    if (l.times > 1) out << ", " << l.times << " times";
    out << '\n';
  }

  line first_[k_innermost];
  line last_[k_outermost];
  std::size_t lines_ = 0;
  std::size_t frames_ = 0;
};

struct unwind_walk {
  frame_collector* frames;
  bool skipping;  // the handler's own frames, until one has this pc:
  std::uintptr_t start_at;
};

_Unwind_Reason_Code on_frame(_Unwind_Context* context, void* raw) {
  auto* const walk = static_cast<unwind_walk*>(raw);
  int interrupted = 0;
  const std::uintptr_t pc = _Unwind_GetIPInfo(context, &interrupted);
  if (pc == 0) return _URC_END_OF_STACK;
  if (walk->skipping && pc != walk->start_at) return _URC_NO_REASON;
  walk->skipping = false;
  if (interrupted != 0) {
    walk->frames->add_interrupted(pc);
  } else {
    walk->frames->add_call(pc);
  }
  return _URC_NO_REASON;
}

// For code without unwind tables. Each frame pointer points to the caller's, with the return
// address above it, and every step must go up inside the stack.
void walk_frame_pointers(frame_collector& frames, std::uintptr_t pc, std::uintptr_t frame,
                         stack_bounds bounds) {
  const auto low = reinterpret_cast<std::uintptr_t>(bounds.low);
  const auto high = reinterpret_cast<std::uintptr_t>(bounds.high);
  frames.add_interrupted(pc);
  while (frame >= low && frame + 2 * sizeof(std::uintptr_t) <= high &&
         frame % sizeof(std::uintptr_t) == 0) {
    const auto* const words = reinterpret_cast<const std::uintptr_t*>(frame);
    if (words[1] == 0) break;
    frames.add_call(words[1]);
    if (words[0] <= frame) break;
    frame = words[0];
  }
}

}  // namespace

void prepare_backtraces() {
  frame_collector frames;
  unwind_walk walk{&frames, false, 0};
  _Unwind_Backtrace(on_frame, &walk);
  Dl_info info;
  dladdr(reinterpret_cast<void*>(&prepare_backtraces), &info);
}

void print_call_site(printer& out, const void* return_address) {
  const auto pc = reinterpret_cast<std::uintptr_t>(return_address);
  print_place(out, pc, pc - 1);
}

void print_backtrace(printer& out) {
  frame_collector frames;
  unwind_walk walk{&frames, false, 0};
  _Unwind_Backtrace(on_frame, &walk);
  frames.print(out);
}

void print_backtrace(printer& out, const signal_event& event, stack_bounds bounds) {
  frame_collector by_tables;
  unwind_walk walk{&by_tables, true, event.program_counter};
  _Unwind_Backtrace(on_frame, &walk);
  if (by_tables.count() > 1) return by_tables.print(out);
  frame_collector by_pointers;
  walk_frame_pointers(by_pointers, event.program_counter, event.frame_pointer, bounds);
  by_pointers.print(out);
}

}  // namespace magpie::rt::os
