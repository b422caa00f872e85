// unwind.cpp: the tables of .eh_frame, as the DWARF standard (6.4) and the Linux Standard Base have
// them. For each function there is a program, which says for every instruction where the caller's
// registers are: relative to the CFA, the stack pointer before the call.

#include "fiber/unwind.h"

#include <cstring>
#include <iterator>

#include "base/varint.h"

namespace magpie::rt {

// Another thread may write there: to the checker of races this is one, and meant to be.
#if defined(__clang__)
__attribute__((no_sanitize("thread", "address")))
#else
__attribute__((no_sanitize_thread, no_sanitize_address))
#endif
bool stack_memory::read(std::uintptr_t address, std::uintptr_t& word) const {
  if (address < low || high < sizeof word || address > high - sizeof word) return false;
  if (address % sizeof word != 0) return false;
  const std::uintptr_t at =
      copy == nullptr ? address : reinterpret_cast<std::uintptr_t>(copy) + (address - low);
  word = *reinterpret_cast<const volatile std::uintptr_t*>(at);
  return true;
}

namespace {

// ---- Reading tables ---------------------------------------------------------------------------

// Never past its end: after a read that would go there, failed() is true and everything reads 0.
class cursor {
 public:
  cursor() = default;
  cursor(std::uintptr_t start, std::uintptr_t end) : at_(start), end_(end) {}

  bool failed() const { return failed_; }
  bool at_end() const { return failed_ || at_ >= end_; }
  std::uintptr_t position() const { return at_; }
  std::uintptr_t end() const { return end_; }

  template <class T>
  T get() {
    T value{};
    if (failed_ || end_ - at_ < sizeof value) {
      failed_ = true;
      return value;
    }
    std::memcpy(&value, reinterpret_cast<const void*>(at_), sizeof value);
    at_ += sizeof value;
    return value;
  }
  std::uint8_t byte() { return get<std::uint8_t>(); }

  std::uint64_t uleb() { return read_uleb(*this); }
  std::int64_t sleb() { return read_sleb(*this); }

  // The next `size` bytes, which are skipped here.
  cursor part(std::uint64_t size) {
    if (failed_ || size > end_ - at_) {
      failed_ = true;
      return {};
    }
    at_ += size;
    return {at_ - size, at_};
  }
  void skip(std::uint64_t size) { part(size); }

  // A pointer in one of the encodings of .eh_frame. `data`: the start of .eh_frame_hdr.
  std::uintptr_t pointer(std::uint8_t encoding, std::uintptr_t data) {
    constexpr std::uint8_t k_omitted = 0xff, k_indirect = 0x80;
    if (encoding == k_omitted) return 0;
    const std::uintptr_t here = at_;
    std::uintptr_t value = number(encoding & 0x0f);
    if (value == 0) return 0;
    switch (encoding & 0x70) {
      case 0x00:  // absolute
        break;
      case 0x10:  // from here
        value += here;
        break;
      case 0x30:  // from the start of the data
        value += data;
        break;
      default:
        failed_ = true;
    }
    if ((encoding & k_indirect) != 0) failed_ = true;  // of no use for what is read here
    return value;
  }

 private:
  std::uintptr_t number(std::uint8_t format) {
    switch (format) {
      case 0x00:
        return get<std::uintptr_t>();
      case 0x01:
        return uleb();
      case 0x02:
        return get<std::uint16_t>();
      case 0x03:
        return get<std::uint32_t>();
      case 0x04:
      case 0x0c:
        return get<std::uint64_t>();
      case 0x09:
        return static_cast<std::uintptr_t>(sleb());
      case 0x0a:
        return static_cast<std::uintptr_t>(std::int64_t{get<std::int16_t>()});
      case 0x0b:
        return static_cast<std::uintptr_t>(std::int64_t{get<std::int32_t>()});
      default:
        failed_ = true;
        return 0;
    }
  }

  std::uintptr_t at_ = 0, end_ = 0;
  bool failed_ = false;
};

// What is said about one function, together with what it has in common with others.
struct function_table {
  std::uintptr_t begin = 0, end = 0;
  cursor common_program, program;
  std::uint64_t code_unit = 1;
  std::int64_t data_unit = 1;
  std::uint64_t return_column = unwind_registers::k_return_address;
  bool interrupted = false;  // the frame that the kernel makes for a signal's handler
};

// The common part ("CIE"). False: it has something that is not known here.
bool read_common(std::uintptr_t at, std::uintptr_t end, function_table& out,
                 std::uint8_t& encoding) {
  cursor head(at, end);
  cursor in = head.part(head.get<std::uint32_t>());
  if (in.get<std::uint32_t>() != 0) return false;
  const std::uint8_t version = in.byte();
  if (version != 1 && version != 3) return false;
  const auto* const letters = reinterpret_cast<const char*>(in.position());
  while (in.byte() != 0) {
  }
  if (in.failed()) return false;
  out.code_unit = in.uleb();
  out.data_unit = in.sleb();
  out.return_column = version == 1 ? in.byte() : in.uleb();
  encoding = 0;
  if (letters[0] == 'z') {
    cursor extra = in.part(in.uleb());
    for (const char* letter = letters + 1; *letter != '\0'; ++letter) {
      switch (*letter) {
        case 'R':
          encoding = extra.byte();
          break;
        case 'P': {
          const std::uint8_t how = extra.byte();
          extra.pointer(how & 0x7f, 0);
          break;
        }
        case 'L':
          extra.byte();
          break;
        case 'S':
          out.interrupted = true;
          break;
        case 'B':  // return addresses are signed with another key (aarch64)
          break;
        default:
          return false;
      }
    }
    if (extra.failed()) return false;
  } else if (letters[0] != '\0') {
    return false;
  }
  out.common_program = in;
  return !in.failed() && out.return_column < unwind_registers::k_count;
}

// The one at `at` ("FDE").
bool read_function(std::uintptr_t at, std::uintptr_t end, std::uintptr_t data,
                   function_table& out) {
  cursor head(at, end);
  const std::uint32_t size = head.get<std::uint32_t>();
  if (size == 0 || size == 0xffffffff) return false;
  cursor in = head.part(size);
  const std::uintptr_t here = in.position();
  const std::uint32_t back = in.get<std::uint32_t>();
  if (in.failed() || back == 0 || back > here) return false;
  std::uint8_t encoding = 0;
  if (!read_common(here - back, end, out, encoding)) return false;
  out.begin = in.pointer(encoding, data);
  out.end = out.begin + in.pointer(encoding & 0x0f, data);
  in.skip(in.uleb());
  out.program = in;
  return !in.failed();
}

// By the sorted table of .eh_frame_hdr: pairs of 32-bit numbers, from its start.
bool find_function(const os::loaded_module& module, std::uintptr_t address, function_table& out) {
  const std::uintptr_t start = module.unwind_table;
  if (start == 0) return false;
  cursor in(start, module.unwind_end);
  constexpr std::uint8_t k_pairs = 0x3b;
  if (in.byte() != 1) return false;
  const std::uint8_t frame_encoding = in.byte(), count_encoding = in.byte();
  if (in.byte() != k_pairs) return false;
  in.pointer(frame_encoding, start);
  const std::uint64_t count = in.pointer(count_encoding, start);
  const std::uintptr_t table = in.position();
  if (in.failed() || count == 0 || count > (module.unwind_end - table) / 8) return false;
  const auto entry = [&](std::uint64_t i, std::uint64_t which) {
    std::int32_t value = 0;
    std::memcpy(&value, reinterpret_cast<const void*>(table + i * 8 + which * 4), sizeof value);
    return start + static_cast<std::uintptr_t>(std::int64_t{value});
  };
  if (address < entry(0, 0)) return false;
  std::uint64_t low = 0, high = count;  // entry(low) <= address < entry(high)
  while (high - low > 1) {
    const std::uint64_t middle = low + (high - low) / 2;
    (entry(middle, 0) <= address ? low : high) = middle;
  }
  const std::uintptr_t found = entry(low, 1);
  if (found < module.low || found >= module.high) return false;
  return read_function(found, module.high, start, out) && address >= out.begin && address < out.end;
}

// ---- Running them -----------------------------------------------------------------------------

struct rule {
  enum class kind : std::uint8_t {
    same,
    undefined,
    at_offset,     // from the CFA
    offset_value,  // the CFA plus that is the value itself
    in_register,
    at_expression,
    expression_value,
  };
  kind how = kind::same;
  std::int64_t number = 0;
  cursor expression;
};

struct row {
  bool cfa_is_expression = false;
  std::uint64_t cfa_register = 0;
  std::int64_t cfa_offset = 0;
  cursor cfa_expression;
  rule rules[unwind_registers::k_count];
};

class row_machine {
 public:
  explicit row_machine(const function_table& f) : function_(f) {}

  // False: something that is not known here.
  bool run(std::uintptr_t target) {
    location_ = function_.begin;
    if (!run(function_.common_program, ~std::uintptr_t{0})) return false;
    initial_ = now;
    return run(function_.program, target);
  }

  row now;

 private:
  bool run(cursor in, std::uintptr_t target) {
    while (!in.at_end()) {
      if (!step(in)) return false;
      if (location_ > target) break;
    }
    return !in.failed();
  }

  void advance(std::uint64_t units) { location_ += units * function_.code_unit; }

  rule* rule_of(std::uint64_t number) {
    // Others exist (vector registers), and are of no interest.
    return number < unwind_registers::k_count ? &now.rules[number] : &ignored_;
  }

  void set(std::uint64_t number, rule::kind how, std::int64_t value) {
    *rule_of(number) = {how, value, {}};
  }
  void restore(std::uint64_t number) {
    if (number < unwind_registers::k_count) now.rules[number] = initial_.rules[number];
  }

  bool step(cursor& in);
  bool step_extended(std::uint8_t code, cursor& in);

  static constexpr std::size_t k_deepest = 4;

  const function_table& function_;
  std::uintptr_t location_ = 0;
  row initial_;
  row kept_[k_deepest];
  std::size_t depth_ = 0;
  rule ignored_;
};

bool row_machine::step(cursor& in) {
  const std::uint8_t code = in.byte();
  const std::uint8_t low = code & 0x3f;
  switch (code >> 6) {
    case 1:
      advance(low);
      return true;
    case 2:
      set(low, rule::kind::at_offset, static_cast<std::int64_t>(in.uleb()) * function_.data_unit);
      return true;
    case 3:
      restore(low);
      return true;
    default:
      return step_extended(code, in);
  }
}

bool row_machine::step_extended(std::uint8_t code, cursor& in) {
  const std::int64_t unit = function_.data_unit;
  switch (code) {
    case 0x00:  // nothing
      return true;
    case 0x02:
      advance(in.byte());
      return true;
    case 0x03:
      advance(in.get<std::uint16_t>());
      return true;
    case 0x04:
      advance(in.get<std::uint32_t>());
      return true;
    case 0x05: {  // offset, extended
      const std::uint64_t number = in.uleb();
      set(number, rule::kind::at_offset, static_cast<std::int64_t>(in.uleb()) * unit);
      return true;
    }
    case 0x06:
      restore(in.uleb());
      return true;
    case 0x07:
      set(in.uleb(), rule::kind::undefined, 0);
      return true;
    case 0x08:
      set(in.uleb(), rule::kind::same, 0);
      return true;
    case 0x09: {
      const std::uint64_t number = in.uleb();
      set(number, rule::kind::in_register, static_cast<std::int64_t>(in.uleb()));
      return true;
    }
    case 0x0a:  // remember
      if (depth_ == k_deepest) return false;
      kept_[depth_++] = now;
      return true;
    case 0x0b:  // restore what was remembered
      if (depth_ == 0) return false;
      now = kept_[--depth_];
      return true;
    case 0x0c:
      now.cfa_is_expression = false;
      now.cfa_register = in.uleb();
      now.cfa_offset = static_cast<std::int64_t>(in.uleb());
      return true;
    case 0x0d:
      now.cfa_register = in.uleb();
      return true;
    case 0x0e:
      now.cfa_offset = static_cast<std::int64_t>(in.uleb());
      return true;
    case 0x0f:
      now.cfa_is_expression = true;
      now.cfa_expression = in.part(in.uleb());
      return true;
    case 0x10:
    case 0x16: {
      rule* const r = rule_of(in.uleb());
      r->how = code == 0x10 ? rule::kind::at_expression : rule::kind::expression_value;
      r->expression = in.part(in.uleb());
      return true;
    }
    case 0x11: {
      const std::uint64_t number = in.uleb();
      set(number, rule::kind::at_offset, in.sleb() * unit);
      return true;
    }
    case 0x12:
      now.cfa_is_expression = false;
      now.cfa_register = in.uleb();
      now.cfa_offset = in.sleb() * unit;
      return true;
    case 0x13:
      now.cfa_offset = in.sleb() * unit;
      return true;
    case 0x14:
    case 0x15: {
      const std::uint64_t number = in.uleb();
      const std::int64_t offset = code == 0x14 ? static_cast<std::int64_t>(in.uleb()) : in.sleb();
      set(number, rule::kind::offset_value, offset * unit);
      return true;
    }
    case 0x2d:  // aarch64: return addresses are signed from here on; the sign is cut off anyway
      return true;
    case 0x2e:  // size of arguments
      in.uleb();
      return true;
    default:
      return false;
  }
}

// The few operations that compilers use here: for frames that were aligned by hand, for the
// trampolines of the dynamic linker, for the frame under a signal's handler.
bool evaluate(cursor in, const unwind_registers& at, const stack_memory& memory,
              const std::uintptr_t* first, std::uintptr_t& result) {
  std::uintptr_t values[16];
  std::size_t depth = 0;
  const auto push = [&](std::uintptr_t v) {
    if (depth == std::size(values)) return false;
    values[depth++] = v;
    return true;
  };
  if (first != nullptr) push(*first);
  while (!in.at_end()) {
    const std::uint8_t code = in.byte();
    bool worked = true;
    if (code >= 0x30 && code <= 0x4f) {
      worked = push(code - 0x30U);
    } else if (code >= 0x70 && code <= 0x8f) {
      const std::size_t number = code - 0x70U;
      const auto offset = static_cast<std::uintptr_t>(in.sleb());
      worked = number < unwind_registers::k_count &&
               push((number == unwind_registers::k_return_address &&
                             unwind_registers::k_return_address == 16
                         ? at.program_counter
                         : at.values[number]) +
                    offset);
    } else if (code == 0x06) {  // what it points to
      worked = depth >= 1 && memory.read(values[depth - 1], values[depth - 1]);
    } else if (code == 0x08 || code == 0x09) {
      const std::uint8_t b = in.byte();
      worked = push(code == 0x08
                        ? b
                        : static_cast<std::uintptr_t>(std::int64_t{static_cast<std::int8_t>(b)}));
    } else if (code == 0x10) {
      worked = push(in.uleb());
    } else if (code == 0x11) {
      worked = push(static_cast<std::uintptr_t>(in.sleb()));
    } else if (code == 0x23) {
      worked = depth >= 1;
      const std::uint64_t more = in.uleb();
      if (worked) values[depth - 1] += more;
    } else if (depth >= 2) {
      const std::uintptr_t b = values[--depth];
      std::uintptr_t& a = values[depth - 1];
      switch (code) {
        case 0x1a:
          a &= b;
          break;
        case 0x1c:
          a -= b;
          break;
        case 0x22:
          a += b;
          break;
        case 0x24:
          a = b < 64 ? a << b : 0;
          break;
        case 0x2a:
          a = static_cast<std::intptr_t>(a) >= static_cast<std::intptr_t>(b) ? 1 : 0;
          break;
        default:
          worked = false;
      }
    } else {
      worked = false;
    }
    if (!worked) return false;
  }
  if (in.failed() || depth == 0) return false;
  result = values[depth - 1];
  return true;
}

std::uintptr_t without_signature(std::uintptr_t address) {
#if defined(__aarch64__)
  return address & 0x0000'ffff'ffff'ffff;
#else
  return address;
#endif
}

}  // namespace

// ---- The walk ---------------------------------------------------------------------------------

bool stack_walk::step_by_table(unwind_registers& caller, bool& is_outermost) {
  using registers = unwind_registers;
  const os::loaded_module* const module = modules_.find(inside());
  function_table table;
  if (module == nullptr || !find_function(*module, inside(), table)) return false;
  row_machine machine(table);
  if (!machine.run(inside())) return false;
  const row& now = machine.now;
  std::uintptr_t cfa = 0;
  if (now.cfa_is_expression) {
    if (!evaluate(now.cfa_expression, at_, memory_, nullptr, cfa)) return false;
  } else {
    if (now.cfa_register >= registers::k_count) return false;
    if (now.cfa_register == registers::k_frame_pointer && at_.values[now.cfa_register] == 0) {
      at_.values[now.cfa_register] = guess_frame();
    }
    cfa = at_.values[now.cfa_register] + static_cast<std::uintptr_t>(now.cfa_offset);
  }
  caller = at_;
  for (std::size_t i = 0; i < registers::k_count; ++i) {
    const rule& r = now.rules[i];
    std::uintptr_t& value = caller.values[i];
    bool worked = true;
    std::uintptr_t place = cfa + static_cast<std::uintptr_t>(r.number);
    switch (r.how) {
      case rule::kind::same:
        break;
      case rule::kind::undefined:
        if (i == table.return_column) {
          is_outermost = true;
          return true;
        }
        value = 0;
        break;
      case rule::kind::at_offset:
        worked = memory_.read(place, value);
        break;
      case rule::kind::offset_value:
        value = place;
        break;
      case rule::kind::in_register:
        worked = static_cast<std::uint64_t>(r.number) < registers::k_count;
        if (worked) value = at_.values[r.number];
        break;
      case rule::kind::at_expression:
        worked = evaluate(r.expression, at_, memory_, &cfa, place) && memory_.read(place, value);
        break;
      case rule::kind::expression_value:
        worked = evaluate(r.expression, at_, memory_, &cfa, value);
        break;
    }
    if (!worked && i == table.return_column) return false;
    if (!worked) value = 0;
  }
  caller.program_counter = without_signature(caller.values[table.return_column]);
  if (now.rules[registers::k_stack_pointer].how == rule::kind::same) {
    caller.values[registers::k_stack_pointer] = cfa;
  }
  function_ = table.begin;
  left_by_signal_ = table.interrupted;
  return true;
}

namespace {

// Whether the instruction before is a call: what stands on a stack by chance mostly has none there.
bool follows_a_call(std::uintptr_t address) {
#if defined(__x86_64__)
  const auto* const end = reinterpret_cast<const unsigned char*>(address);
  if (end[-5] == 0xe8) return true;
  for (const int length : {2, 3, 4, 6, 7}) {  // through a register, or memory
    if (end[-length] == 0xff && (end[1 - length] & 0x38) == 0x10) return true;
  }
  return false;
#elif defined(__aarch64__)
  std::uint32_t before = 0;
  std::memcpy(&before, reinterpret_cast<const void*>(address - sizeof before), sizeof before);
  return (before & 0xfc000000) == 0x94000000 || (before & 0xfffffc1f) == 0xd63f0000;
#endif
}

}  // namespace

// The frame pointer of a thread that sleeps in the kernel is not known. The frame it points to
// looks like this: the caller's, further up, and above it an address in code that has tables.
std::uintptr_t stack_walk::guess_frame() const {
  std::uintptr_t outer = 0, back = 0;
  for (std::uintptr_t at = at_.stack_pointer();
       memory_.read(at, outer) && memory_.read(at + sizeof at, back); at += sizeof at) {
    if (outer <= at || outer >= memory_.high) continue;
    const os::loaded_module* const module = modules_.find(back - 1);
    function_table table;
    if (module != nullptr && find_function(*module, back - 1, table) && back - table.begin >= 8 &&
        follows_a_call(back)) {
      return at;
    }
  }
  return 0;
}

// Each frame pointer points to the caller's, with the return address above it.
bool stack_walk::step_by_frame_pointer(unwind_registers& caller) const {
  const std::uintptr_t frame = at_.values[unwind_registers::k_frame_pointer];
  std::uintptr_t outer = 0, back = 0;
  if (frame < at_.stack_pointer() || !memory_.read(frame, outer) ||
      !memory_.read(frame + sizeof frame, back)) {
    return false;
  }
  caller = at_;
  caller.values[unwind_registers::k_frame_pointer] = outer;
  caller.values[unwind_registers::k_stack_pointer] = frame + 2 * sizeof frame;
  caller.program_counter = without_signature(back);
  return true;
}

bool stack_walk::step() {
  unwind_registers caller;
  bool is_outermost = false;
  left_by_signal_ = false;
  function_ = 0;
  if (!step_by_table(caller, is_outermost) && !step_by_frame_pointer(caller)) return false;
  if (is_outermost || caller.program_counter == 0) return false;
  const std::uintptr_t before = at_.stack_pointer(), after = caller.stack_pointer();
  // A function that has no frame yet leads to where it stands; only the innermost can be one.
  if (after < before || (after == before && !interrupted_)) return false;
  if (modules_.find(caller.program_counter - 1) == nullptr) return false;
  at_ = caller;
  interrupted_ = left_by_signal_;
  return true;
}

}  // namespace magpie::rt
