// Writes a made-up trace: make_trace FILE [events [threads [procs [goroutines [seed]]]]]
#include <cstdio>
#include <cstdlib>

#include "support/trace_maker.h"

int main(int count, char** words) {
  const auto number = [&](int which, int otherwise) {
    return count > which ? std::atoi(words[which]) : otherwise;
  };
  if (count < 2) return 2;
  magpie::rt::testing::trace_recipe recipe;
  recipe.events = static_cast<std::uint64_t>(number(2, 10'000) / recipe.generations);
  recipe.threads = number(3, 10);
  recipe.procs = number(4, 4);
  recipe.most_goroutines = static_cast<std::size_t>(number(5, 1000));
  recipe.seed = static_cast<std::uint64_t>(number(6, 1));
  recipe.batch_size = 65536;
  magpie::rt::testing::trace_maker maker(recipe);
  const auto bytes = maker.make();
  std::FILE* const file = std::fopen(words[1], "wb");
  if (file == nullptr) return 1;
  const bool written = std::fwrite(bytes.data(), 1, bytes.size(), file) == bytes.size();
  return std::fclose(file) == 0 && written ? 0 : 1;
}
