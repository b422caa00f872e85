// Files.

#include "workloads.h"

#include <cstdint>
#include <vector>

namespace workloads {
namespace {

using magpie::open_mode;

constexpr std::uint64_t k_block = 4096;

// A file of 1 GiB, made by whoever comes first.
magpie::file bench_file(std::uint64_t size) {
  const char* const path = std::getenv("MAGPIE_BENCH_FILE");
  magpie::file file = magpie::file::open(path != nullptr ? path : "file_reads.bin",
                                         open_mode::read | open_mode::write | open_mode::create);
  if (file.size() >= size) return file;
  std::vector<std::byte> bytes(1 << 20);
  for (std::size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<std::byte>(i);
  for (std::uint64_t at = 0; at < size; at += bytes.size()) file.write_at(bytes, at);
  return file;
}

std::atomic<std::uint64_t> g_computed{0};

// About 20 us of arithmetic.
void compute() {
  std::uint64_t x = g_computed.load(std::memory_order_relaxed) | 1;
  for (int i = 0; i < 20'000; ++i) {
    x ^= x << 13;
    x ^= x >> 7;
    x ^= x << 17;
  }
  g_computed.store(x, std::memory_order_relaxed);
}

// Reads: 64 goroutines read blocks at random. Then one computes beside them, and is compared with
// what it does alone.
class file_readers {
 public:
  file_readers(magpie::file& file, std::uint64_t size) {
    for (std::uint64_t i = 0; i < 64; ++i) {
      all_.go([&file, size, this, random = (i + 1) * 0x9e3779b97f4a7c15]() mutable {
        std::vector<std::byte> block(k_block);
        while (!stop_) {
          random ^= random << 13;
          random ^= random >> 7;
          random ^= random << 17;
          if (file.read_at(block, random % (size / k_block) * k_block) != k_block) {
            fail("file_reads: a short read");
          }
          ++reads;
        }
      });
    }
  }
  ~file_readers() {
    stop_ = true;
    all_.wait();
  }

  std::atomic<long> reads{0};

 private:
  std::atomic<bool> stop_{false};
  completion all_;
};

// How much is added to the count in a second.
double rate_of(const std::atomic<long>& counted, nanoseconds length) {
  magpie::this_goroutine::sleep_for(length / 10);
  const long before = counted;
  const instant start = now();
  magpie::this_goroutine::sleep_for(length);
  return static_cast<double>(counted - before) /
         std::chrono::duration<double>(now() - start).count();
}

void file_reads() {
  const std::uint64_t size =
      std::max<std::uint64_t>(1 << 20, static_cast<std::uint64_t>(count(1 << 30)) & ~0xfffffULL);
  magpie::file file = bench_file(size);
  double reads = 0;
  {
    const file_readers readers(file, size);
    reads = rate_of(readers.reads, window(seconds(2)));
  }
  std::atomic<long> rounds{0};
  std::atomic<bool> stop{false};
  completion all;
  all.go([&] {
    while (!stop) {
      compute();
      ++rounds;
      magpie::this_goroutine::checkpoint();
    }
  });
  const double alone = rate_of(rounds, window(milliseconds(500)));
  double beside = 0;
  {
    const file_readers readers(file, size);
    beside = rate_of(rounds, window(seconds(1)));
  }
  stop = true;
  all.wait();
  report("file_reads", reads, "reads/s");
  report("file_beside", 100 * beside / alone, "percent");
}

}  // namespace

void add_files(table& to) { to["file_reads"] = file_reads; }

}  // namespace workloads
