// A strict reader of Prometheus' text format 0.0.4: what it accepts any scraper does.
#pragma once

#include <cmath>
#include <map>
#include <regex>
#include <stdexcept>
#include <string>
#include <string_view>

namespace magpie::rt::testing {

struct prometheus_metrics {
  std::map<std::string, std::string> types;  // by the name of the family
  std::map<std::string, double> values;      // by name and labels, as written
};

class prometheus_reader {
 public:
  prometheus_metrics read(std::string_view text) {
    if (text.empty() || text.back() != '\n') fail("does not end with a line feed");
    while (!text.empty()) {
      const std::size_t end = text.find('\n');
      read_line(std::string(text.substr(0, end)));
      text.remove_prefix(end + 1);
    }
    end_family();
    return all_;
  }

 private:
  [[noreturn]] void fail(const std::string& why) const {
    throw std::runtime_error("line \"" + line_ + "\": " + why);
  }

  void read_line(const std::string& line) {
    line_ = line;
    static const std::regex k_help("# HELP ([a-zA-Z_:][a-zA-Z0-9_:]*) ([^ \\\\].*)");
    static const std::regex k_type(
        "# TYPE ([a-zA-Z_:][a-zA-Z0-9_:]*) (counter|gauge|histogram|summary|untyped)");
    static const std::regex k_sample(
        "([a-zA-Z_:][a-zA-Z0-9_:]*)"
        "(\\{[a-zA-Z_][a-zA-Z0-9_]*=\"[^\"\\\\]*\"(,[a-zA-Z_][a-zA-Z0-9_]*=\"[^\"\\\\]*\")*\\})?"
        " (-?[0-9]+(\\.[0-9]+)?(e[-+][0-9]+)?|NaN|[-+]Inf)");
    std::smatch found;
    if (std::regex_match(line, found, k_help)) {
      end_family();
      family_ = found[1];
      if (all_.types.contains(family_)) fail("the family was there before");
    } else if (std::regex_match(line, found, k_type)) {
      if (found[1] != family_) fail("not the family of the HELP line");
      if (!all_.types.emplace(family_, found[2]).second) fail("a second TYPE");
    } else if (std::regex_match(line, found, k_sample)) {
      read_sample(found[1], found[2], std::stod(found[4]));
    } else {
      fail("is none of HELP, TYPE and sample");
    }
  }

  void read_sample(const std::string& name, const std::string& labels, double value) {
    const auto type = all_.types.find(family_);
    if (family_.empty() || type == all_.types.end()) fail("a sample without a TYPE");
    if (!all_.values.emplace(name + labels, value).second) fail("a second time");
    ++samples_;
    if (type->second == "histogram") return read_histogram(name, labels, value);
    if (name != family_) fail("not the family");
    if (type->second != "counter") return;
    if (!name.ends_with("_total")) fail("counters end in _total");
    if (value < 0) fail("counters are not negative");
  }

  void read_histogram(const std::string& name, const std::string& labels, double value) {
    if (name == family_ + "_bucket") {
      static const std::regex k_bound("\\{le=\"(.*)\"\\}");
      std::smatch found;
      if (!std::regex_match(labels, found, k_bound)) fail("a bucket without a bound");
      const double bound = found[1] == "+Inf" ? INFINITY : std::stod(found[1]);
      if (bound <= bound_) fail("bounds do not grow");
      if (value < in_buckets_) fail("buckets are not cumulative");
      bound_ = bound;
      in_buckets_ = value;
    } else if (name == family_ + "_sum") {
      has_sum_ = true;
    } else if (name == family_ + "_count") {
      has_count_ = true;
      if (value != in_buckets_) fail("the count is not that of the last bucket");
    } else {
      fail("not the family");
    }
  }

  void end_family() {
    if (family_.empty()) return;
    if (samples_ == 0) fail("the family before has no sample");
    if (all_.types.at(family_) == "histogram" && (bound_ != INFINITY || !has_sum_ || !has_count_)) {
      fail("the histogram before lacks +Inf, sum or count");
    }
    samples_ = 0;
    bound_ = -INFINITY;
    in_buckets_ = 0;
    has_sum_ = has_count_ = false;
  }

  prometheus_metrics all_;
  std::string line_, family_;
  int samples_ = 0;
  double bound_ = -INFINITY, in_buckets_ = 0;
  bool has_sum_ = false, has_count_ = false;
};

inline prometheus_metrics parse_prometheus(std::string_view text) {
  return prometheus_reader().read(text);
}

}  // namespace magpie::rt::testing
