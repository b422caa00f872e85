#include "symbols/code_names.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/random.h"
#include "os/mapped_file.h"
#include "support/printed.h"
#include "symbols/elf_file.h"
#include "symbols/inline_table.h"
#include "symbols/line_table.h"

namespace magpie::rt {
namespace {

using ::testing::ContainsRegex;
using ::testing::HasSubstr;

[[gnu::noinline]] const void* code_names_test_here() { return __builtin_return_address(0); }

TEST(CodeNames, FindFunctionFileAndLine) {
  const void* const here = code_names_test_here();
  constexpr int k_line = __LINE__ - 1;
  code_names names;
  names.want_call(here);
  names.look_up(code_names::style::demangled);
  const code_name* const n = names.find(reinterpret_cast<std::uintptr_t>(here) - 1);
  ASSERT_NE(n, nullptr);
  EXPECT_THAT(testing::printed([&](printer& out) { print_function(out, *n); }),
              HasSubstr("CodeNames_FindFunctionFileAndLine_Test::TestBody()"));
  EXPECT_THAT(testing::printed([&](printer& out) { print_place(out, *n); }),
              ContainsRegex("/tests/unit/symbols/code_names_test.cpp:" + std::to_string(k_line) +
                            " \\+0x[0-9a-f]+$"));
}

TEST(CodeNames, WhatIsNoCodeHasNoName) {
  code_names names;
  int here = 0;
  names.want(reinterpret_cast<std::uintptr_t>(&here));
  names.want(0);
  names.want(~std::uintptr_t{0});
  names.look_up(code_names::style::demangled);
  const code_name* const n = names.find(reinterpret_cast<std::uintptr_t>(&here));
  ASSERT_NE(n, nullptr);
  EXPECT_EQ(n->function, nullptr);
  EXPECT_EQ(names.find(17), nullptr);
}

// ---- Broken files -----------------------------------------------------------------------------

std::vector<std::byte> own_file() {
  const auto bytes = os::map_file("/proc/self/exe");
  std::vector<std::byte> copy(bytes.begin(), bytes.end());
  os::unmap_file(bytes);
  return copy;
}

// As code_names does, with whatever comes of it.
std::size_t read_all(std::span<const std::byte> bytes) {
  const elf_file file(bytes);
  std::size_t found = 0;
  std::vector<std::uint64_t> addresses;
  file.for_each_function([&](const elf_file::function& f) {
    found += std::strlen(f.name) != 0 ? 1 : 0;
    if (found % 997 == 0) addresses.push_back(f.address);
  });
  std::sort(addresses.begin(), addresses.end());
  const line_table lines(
      {file.section(".debug_line"), file.section(".debug_line_str"), file.section(".debug_str")});
  lines.find(
      addresses.data(), addresses.size(),
      [](void* count, std::size_t, const line_table::hit& hit) {
        *static_cast<std::size_t*>(count) +=
            std::strlen(hit.place.file != nullptr ? hit.place.file : "");
      },
      &found);
  const inline_table inlined({file.section(".debug_info"), file.section(".debug_abbrev"),
                              file.section(".debug_str"), file.section(".debug_line_str"),
                              file.section(".debug_str_offsets"), file.section(".debug_addr"),
                              file.section(".debug_ranges"), file.section(".debug_rnglists")});
  text_store texts;
  inlined.find(
      addresses.data(), addresses.size(), texts,
      [](void* count, std::size_t, const inlined_call& call) {
        *static_cast<std::size_t*>(count) += std::strlen(call.function);
      },
      &found);
  return found;
}

TEST(ElfFile, TheOwnOneHasFunctionsAndLines) {
  const auto bytes = own_file();
  const elf_file file(bytes);
  ASSERT_TRUE(file.valid());
  EXPECT_FALSE(file.section(".debug_line").empty());
  EXPECT_TRUE(file.section(".no_such_section").empty());
  EXPECT_FALSE(file.is_compressed(".debug_line"));
  EXPECT_GT(read_all(bytes), 1000u);
}

TEST(ElfFile, CutAnywhereIsNoCrash) {
  const auto bytes = own_file();
  random_source random(1);
  for (int i = 0; i < 30; ++i) {
    const std::size_t size = i < 10 ? static_cast<std::size_t>(i) * 9
                                    : random.below(static_cast<std::uint32_t>(bytes.size()));
    read_all(std::span(bytes).first(size));
  }
}

// The head, the section table and the start of every section are where it hurts.
TEST(ElfFile, SpoiledAnywhereIsNoCrash) {
  const auto whole = own_file();
  random_source random(2);
  auto bytes = whole;
  for (int i = 0; i < 60; ++i) {
    std::vector<std::pair<std::size_t, std::byte>> spoiled;
    const auto spoil = [&](std::size_t at) {
      spoiled.push_back({at, bytes[at]});
      bytes[at] = static_cast<std::byte>(random.below(256));
    };
    for (int k = 0; k < 8; ++k) spoil(random.below(64));
    for (int k = 0; k < 8; ++k) spoil(bytes.size() - 1 - random.below(2048));
    for (const char* const name :
         {".debug_line", ".debug_info", ".debug_abbrev", ".debug_rnglists", ".debug_ranges"}) {
      const auto section = elf_file(whole).section(name);
      const auto start = static_cast<std::size_t>(section.data() - whole.data());
      for (int k = 0; k < 64 && !section.empty(); ++k)
        spoil(start + random.below(static_cast<std::uint32_t>(section.size())));
    }
    if (i % 2 == 0) {  // with the head as it was, so that something is read at all
      for (std::size_t k = 0; k < 64; ++k) bytes[k] = whole[k];
    }
    read_all(bytes);
    std::reverse(spoiled.begin(), spoiled.end());  // one may have been spoiled twice
    for (const auto& [at, was] : spoiled) bytes[at] = was;
    for (std::size_t k = 0; k < 64; ++k) bytes[k] = whole[k];
  }
}

TEST(LineTable, NoiseIsNoCrash) {
  random_source random(3);
  const std::uint64_t addresses[] = {0x1000, 0x2000};
  for (int i = 0; i < 20'000; ++i) {
    std::vector<std::byte> noise(8 + random.below(200));
    for (std::byte& b : noise) b = static_cast<std::byte>(random.below(i % 2 == 0 ? 256 : 16));
    const std::uint32_t size = static_cast<std::uint32_t>(noise.size()) - 4;
    std::memcpy(noise.data(), &size, sizeof size);
    const std::uint16_t version = static_cast<std::uint16_t>(2 + random.below(4));
    std::memcpy(noise.data() + 4, &version, sizeof version);
    line_table({noise, noise, noise})
        .find(
            addresses, 2, [](void*, std::size_t, const line_table::hit&) {}, nullptr);
  }
}

TEST(InlineTable, NoiseIsNoCrash) {
  random_source random(4);
  const std::uint64_t addresses[] = {0x10, 0x1000, 0x2000};
  for (int i = 0; i < 20'000; ++i) {
    std::vector<std::byte> noise(32 + random.below(200)), how(64);
    for (std::byte& b : noise) b = static_cast<std::byte>(random.below(i % 2 == 0 ? 256 : 16));
    // Abbreviations with numbers in order, or nothing would be read at all.
    for (std::size_t k = 0; k + 8 <= how.size(); k += 8) {
      const unsigned attributes[] = {0x03, 0x10, 0x11, 0x12, 0x31, 0x47, 0x55, 0x58, 0x6e};
      how[k] = static_cast<std::byte>(k / 8 + 1);
      how[k + 1] = std::byte{0x1d};
      for (std::size_t a = k + 3; a < k + 6; a += 2) {
        how[a] = static_cast<std::byte>(attributes[random.below(9)]);
        how[a + 1] = static_cast<std::byte>(1 + random.below(0x2c));
      }
      how[k + 5] = how[k + 6] = how[k + 7] = std::byte{0};
    }
    const std::uint32_t size = static_cast<std::uint32_t>(noise.size()) - 4;
    std::memcpy(noise.data(), &size, sizeof size);
    const bool fifth = random.below(2) == 0;
    const unsigned char head[] = {
        static_cast<unsigned char>(fifth ? 5 : 4), 0, static_cast<unsigned char>(fifth ? 1 : 0),
        static_cast<unsigned char>(fifth ? 8 : 0), 0, 0,
        static_cast<unsigned char>(fifth ? 0 : 8), 0};
    std::memcpy(noise.data() + 4, head, fifth ? 8 : 7);
    text_store texts;
    inline_table({noise, how, noise, noise, noise, noise, noise, noise})
        .find(
            addresses, 3, texts, [](void*, std::size_t, const inlined_call&) {}, nullptr);
  }
}

}  // namespace
}  // namespace magpie::rt

// ---- Inlined functions: those of a user, who is not in our namespace --------------------------

namespace {

using namespace magpie;
using namespace magpie::rt;
using ::testing::ContainsRegex;

[[gnu::noinline]] const void* users_code_here() { return __builtin_return_address(0); }

// Two functions that have no frame of their own, whatever the compiler would rather do.
constexpr int k_inner_line = __LINE__ + 2;
[[gnu::always_inline]] inline const void* users_inner() {
  const void* const here = users_code_here();
  asm volatile("");
  return here;
}
constexpr int k_outer_line = __LINE__ + 2;
[[gnu::always_inline]] inline const void* users_outer() {
  const void* const here = users_inner();
  asm volatile("");
  return here;
}

TEST(CodeNames, InlinedFunctionsAreShownWithTheLinesOfTheirCalls) {
  constexpr int k_line = __LINE__ + 1;
  const void* const here = users_outer();
  code_names names;
  names.want_call(here);
  names.look_up(code_names::style::demangled);
  std::vector<std::string> shown;
  names.for_each(reinterpret_cast<std::uintptr_t>(here) - 1, [&](const code_name& n) {
    shown.push_back(rt::testing::printed([&](printer& out) {
      print_function(out, n);
      out << ' ';
      print_place(out, n);
    }));
  });
  const auto at = [](int line) {
    return " /.*/tests/unit/symbols/code_names_test.cpp:" + std::to_string(line) + " ";
  };
  ASSERT_EQ(shown.size(), 3u) << ::testing::PrintToString(shown);
  const std::string unnamed = "^\\(anonymous namespace\\)::";
  EXPECT_THAT(shown[0], ContainsRegex(unnamed + "users_inner(\\(\\))?" + at(k_inner_line)));
  EXPECT_THAT(shown[1], ContainsRegex(unnamed + "users_outer(\\(\\))?" + at(k_outer_line)));
  EXPECT_THAT(shown[2], ContainsRegex("_Test::TestBody\\(\\)" + at(k_line)));
}

namespace depths {
struct diver {
  [[gnu::always_inline]] inline const void* dive() const {
    const void* const here = users_code_here();
    asm volatile("");
    return here;
  }
};
[[gnu::always_inline]] inline const void* dive_free() {
  const void* const here = diver().dive();
  asm volatile("");
  return here;
}
}  // namespace depths

TEST(CodeNames, InlinedFunctionsHaveTheNamesOfWhatTheyAreDeclaredIn) {
  const void* const here = depths::dive_free();
  code_names names;
  names.want_call(here);
  names.look_up(code_names::style::demangled);
  std::vector<std::string> shown;
  names.for_each(reinterpret_cast<std::uintptr_t>(here) - 1, [&](const code_name& n) {
    shown.push_back(rt::testing::printed([&](printer& out) { print_function(out, n); }));
  });
  ASSERT_EQ(shown.size(), 3u) << ::testing::PrintToString(shown);
  const std::string inside = "^\\(anonymous namespace\\)::depths::";
  EXPECT_THAT(shown[0], ContainsRegex(inside + "diver::dive(\\(\\) const)?$"));
  EXPECT_THAT(shown[1], ContainsRegex(inside + "dive_free(\\(\\))?$"));
}

// What the standard library has inlined is a part of the line that calls it.
TEST(CodeNames, InlinedFunctionsOfLibrariesAreNotShown) {
  const void* here = nullptr;
  constexpr int k_line = __LINE__ + 2;
  std::vector<int> one(1);
  std::for_each(one.begin(), one.end(), [&](int) { here = users_code_here(); });
  code_names names;
  names.want_call(here);
  names.look_up(code_names::style::demangled);
  names.for_each(reinterpret_cast<std::uintptr_t>(here) - 1, [&](const code_name& n) {
    EXPECT_THAT(rt::testing::printed([&](printer& out) { print_place(out, n); }),
                ContainsRegex("/code_names_test.cpp:" + std::to_string(k_line) + " "));
  });
}

}  // namespace
