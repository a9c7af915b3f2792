#include <sys/resource.h>
#include <unistd.h>

#include <array>
#include <cstdio>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>

#include "reprise/server/metrics/metric_table.h"

namespace reprise::server {
namespace {

/// Reads the fields of /proc/self/stat from the third one on; the second field may contain spaces.
void read_stat(ProcessFacts& facts) {
  std::ifstream file("/proc/self/stat");
  std::string text((std::istreambuf_iterator<char>(file)), {});
  const size_t end_of_name = text.rfind(')');
  if (end_of_name == std::string::npos) return;
  std::istringstream fields(text.substr(end_of_name + 1));
  std::array<double, 22> value{};  // value[i] is field i + 3 of proc(5)
  std::string state;
  fields >> state;
  for (size_t i = 1; i < value.size(); ++i) fields >> value[i];
  const auto ticks = static_cast<double>(sysconf(_SC_CLK_TCK));
  facts.cpu_seconds = (value[11] + value[12]) / ticks;  // utime, stime
  facts.virtual_memory_bytes = value[20];
  facts.resident_memory_bytes = value[21] * static_cast<double>(sysconf(_SC_PAGESIZE));
  timespec now{};
  timespec since_boot{};
  clock_gettime(CLOCK_REALTIME, &now);
  clock_gettime(CLOCK_BOOTTIME, &since_boot);
  facts.start_time_seconds =
      static_cast<double>(now.tv_sec - since_boot.tv_sec) + value[19] / ticks;
}

constexpr auto kProcessFamilies = std::to_array<MetricFamily>({
    {"process_virtual_memory_bytes",
     kGauge,
     "",
     "Address space in use.",
     [](Out out, From from) { out.sample(from.process.virtual_memory_bytes); }},
    {"process_resident_memory_bytes",
     kGauge,
     "",
     "Memory in use.",
     [](Out out, From from) { out.sample(from.process.resident_memory_bytes); }},
    {"process_start_time_seconds",
     kGauge,
     "",
     "When the process started, in seconds since 1970.",
     [](Out out, From from) { out.sample(from.process.start_time_seconds); }},
    {"process_cpu_seconds_total",
     kCounter,
     "",
     "Processor time, of user and system.",
     [](Out out, From from) { out.sample(from.process.cpu_seconds); }},
    {"process_open_fds",
     kGauge,
     "",
     "Open file descriptors.",
     [](Out out, From from) { out.sample(from.process.open_fds); }},
    {"process_max_fds",
     kGauge,
     "",
     "File descriptors that may be open.",
     [](Out out, From from) { out.sample(from.process.max_fds); }},
});

}  // namespace

ProcessFacts read_process_facts() {
  ProcessFacts facts;
  read_stat(facts);
  std::error_code ignored;
  for (std::filesystem::directory_iterator it("/proc/self/fd", ignored), end; it != end;
       it.increment(ignored)) {
    ++facts.open_fds;
  }
  rlimit limit{};
  if (getrlimit(RLIMIT_NOFILE, &limit) == 0) facts.max_fds = static_cast<double>(limit.rlim_cur);
  return facts;
}

MetricGroup process_metrics() {
  return {"The process", MetricGroup::Scope::process, kProcessFamilies};
}

}  // namespace reprise::server
