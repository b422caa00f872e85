// How every benchmark program here runs and what it prints: each workload several times, in
// random order, and a table of medians with magpie's ratio to each peer.
//
// A benchmark is named "workload/contender"; the contender "magpie" is the one compared.
#pragma once

#include <benchmark/benchmark.h>

#include <algorithm>
#include <cstdio>
#include <map>
#include <string>
#include <vector>

namespace magpie::bench {

class ratio_table : public benchmark::BenchmarkReporter {
 public:
  explicit ratio_table(double operations) : operations_(operations) {}
  bool ReportContext(const Context&) override { return true; }

  void ReportRuns(const std::vector<Run>& runs) override {
    for (const Run& run : runs) {
      if (run.run_type != Run::RT_Iteration || run.error_occurred) continue;
      const std::string name = run.run_name.function_name;
      const std::size_t cut = name.rfind('/');
      const std::string workload = name.substr(0, cut);
      order_.emplace(run.family_index, workload);
      times_[workload][name.substr(cut + 1)].push_back(run.GetAdjustedCPUTime() / operations_);
    }
  }

  void Finalize() override {
    std::printf("%-44s %-12s %18s %8s\n", "workload", "contender", "ns: median [min-max]", "ratio");
    std::string last;
    for (const auto& [index, workload] : order_) {
      if (workload == last) continue;
      last = workload;
      auto& contenders = times_[workload];
      const double ours = median(contenders["magpie"]);
      print(workload, "magpie", contenders["magpie"], "");
      for (auto& [contender, times] : contenders) {
        if (contender == "magpie") continue;
        char ratio[32];
        std::snprintf(ratio, sizeof ratio, "%.2fx", ours / median(times));
        print("", contender, times, ratio);
      }
    }
  }

 private:
  static double median(std::vector<double>& times) {
    std::sort(times.begin(), times.end());
    return times.empty() ? 0 : times[times.size() / 2];
  }

  static void print(const std::string& workload, const std::string& contender,
                    std::vector<double>& times, const std::string& ratio) {
    if (times.empty()) return;
    const double middle = median(times);
    std::printf("%-44s %-12s %8.2f [%.2f-%.2f] %8s\n", workload.c_str(), contender.c_str(), middle,
                times.front(), times.back(), ratio.c_str());
  }

  const double operations_;                    // per timed iteration
  std::map<std::int64_t, std::string> order_;  // as registered: interleaved runs come in any
  std::map<std::string, std::map<std::string, std::vector<double>>> times_;
};

// Each timed iteration does `operations`; the table shows one of them. Flags of Google Benchmark
// may be given, these are the defaults.
inline int run_and_print(int count, char** arguments, double operations) {
  std::vector<std::string> words{arguments[0], "--benchmark_repetitions=9",
                                 "--benchmark_min_time=0.1",
                                 "--benchmark_enable_random_interleaving=true"};
  words.insert(words.end(), arguments + 1, arguments + count);
  std::vector<char*> argv;
  for (std::string& word : words) argv.push_back(word.data());
  int argc = static_cast<int>(argv.size());
  benchmark::Initialize(&argc, argv.data());
  if (benchmark::ReportUnrecognizedArguments(argc, argv.data())) return 1;
  ratio_table table(operations);
  benchmark::RunSpecifiedBenchmarks(&table);
  benchmark::Shutdown();
  return 0;
}

}  // namespace magpie::bench
