#include "symbols/code_names.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <span>
#include <utility>
#include <string>
#include <vector>

#include "base/random.h"
#include "symbols/elf_file.h"
#include "symbols/line_table.h"
#include "os/mapped_file.h"
#include "support/printed.h"

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
  const auto lines = elf_file(whole).section(".debug_line");
  const auto lines_at = static_cast<std::size_t>(lines.data() - whole.data());
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
    for (int k = 0; k < 64; ++k)
      spoil(lines_at + random.below(static_cast<std::uint32_t>(lines.size())));
    if (i % 2 == 0) {  // with the head as it was, so that something is read at all
      for (std::size_t k = 0; k < 64; ++k) bytes[k] = whole[k];
    }
    read_all(bytes);
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

}  // namespace
}  // namespace magpie::rt
