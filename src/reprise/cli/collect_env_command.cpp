#include <fmt/format.h>
#include <sched.h>
#include <sys/resource.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <filesystem>
#include <fstream>
#include <string>
#include <string_view>
#include <vector>

#include "reprise/base/error.h"
#include "reprise/cli/commands.h"
#include "reprise/cli/environment.h"
#include "reprise/cli/option_table.h"
#include "reprise/cli/progress.h"
#include "reprise/cli/version.h"
#include "reprise/compile/codegen/plugin.h"
#include "reprise/kernels/accelerator.h"

namespace reprise::cli {
namespace {

// The text after `separator` in the first line that begins with `key`, as in "model name : AMD
// EPYC".
std::string find_line(const char* path, std::string_view key, char separator) {
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);) {
    if (!line.starts_with(key)) continue;
    const size_t at = line.find(separator);
    if (at == std::string::npos) continue;
    std::string_view value = std::string_view(line).substr(at + 1);
    while (!value.empty() &&
           (std::isspace(static_cast<unsigned char>(value.front())) != 0 || value.front() == '"'))
      value.remove_prefix(1);
    while (!value.empty() && value.back() == '"') value.remove_suffix(1);
    return std::string(value);
  }
  return "unknown";
}

std::string first_line(const std::filesystem::path& path, std::string_view otherwise) {
  std::ifstream file(path);
  std::string line;
  return std::getline(file, line) && !line.empty() ? line : std::string(otherwise);
}

std::string cores() {
  cpu_set_t usable;
  CPU_ZERO(&usable);
  const int num_usable =
      sched_getaffinity(0, sizeof(usable), &usable) == 0 ? CPU_COUNT(&usable) : 0;
  return fmt::format("{} usable of {}; quota (cgroup): {}",
                     num_usable,
                     sysconf(_SC_NPROCESSORS_CONF),
                     first_line("/sys/fs/cgroup/cpu.max", "none"));
}

std::string cpu_caches() {
  const auto size = [](int name) {
    return format_bytes(static_cast<size_t>(std::max(0L, sysconf(name))));
  };
  return fmt::format("L1d {}, L2 {}, L3 {}",
                     size(_SC_LEVEL1_DCACHE_SIZE),
                     size(_SC_LEVEL2_CACHE_SIZE),
                     size(_SC_LEVEL3_CACHE_SIZE));
}

std::string build_text() {
#ifdef __clang__
  const std::string_view compiler = "clang " __clang_version__;
#else
  const std::string_view compiler = "g++ " __VERSION__;
#endif
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  const std::string_view sanitizer = ", with a sanitizer";
#else
  const std::string_view sanitizer = "";
#endif
#ifdef NDEBUG
  const std::string_view checks = "";
#else
  const std::string_view checks = ", with debug assertions";
#endif
  return fmt::format("{}, C++ {}{}{}", compiler, __cplusplus, checks, sanitizer);
}

std::string plugin_text(const std::vector<std::filesystem::path>& paths,
                        std::string_view kind,
                        std::string_view without) {
  for (const std::filesystem::path& path : paths) {
    std::error_code ignored;
    if (std::filesystem::exists(path, ignored))
      return fmt::format("{} plug-in ({})", kind, path.filename().string());
  }
  return fmt::format("no {} plug-in: {}", kind, without);
}

std::string gpu_driver() { return first_line("/proc/driver/nvidia/version", "none found"); }

std::string open_files() {
  rlimit limit{};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0) return "unknown";
  return fmt::format("{} (hard {})", limit.rlim_cur, limit.rlim_max);
}

// Users paste reports into public places, so keys and home folders are hidden.
std::string shown_value(std::string_view name, std::string_view value) {
  constexpr std::array kSecretWords = {"KEY", "TOKEN", "SECRET", "PASSWORD"};
  for (std::string_view word : kSecretWords) {
    if (name.find(word) != std::string_view::npos) return "(hidden)";
  }
  if (value.find('/') != std::string_view::npos) return "(a path)";
  const bool is_harmless =
      value.size() <= 40 && std::all_of(value.begin(), value.end(), [](char c) {
        return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_' || c == '.' ||
               c == ',' || c == '-';
      });
  return is_harmless ? std::string(value) : "(hidden)";
}

bool is_of_interest(std::string_view name) {
  constexpr std::array kPrefixes = {
      "VLLM_", "REPRISE_", "CUDA_", "NVIDIA_", "OMP_", "MALLOC_", "LD_PRELOAD"};
  constexpr std::array kNames = {"NO_COLOR", "XDG_CACHE_HOME", "LANG", "LC_ALL", "TERM"};
  return std::any_of(kPrefixes.begin(),
                     kPrefixes.end(),
                     [name](std::string_view p) { return name.starts_with(p); }) ||
         std::find(kNames.begin(), kNames.end(), name) != kNames.end();
}

std::string environment_lines() {
  std::vector<std::string> names = process_environment_names();
  std::sort(names.begin(), names.end());
  std::string text;
  for (const std::string& name : names) {
    if (!is_of_interest(name)) continue;
    text += fmt::format(
        "  {} = {}\n", name, shown_value(name, look_up_process_environment(name).value_or("")));
  }
  return text.empty() ? "  nothing of interest is set\n" : text;
}

void print_line(std::string_view name, std::string_view value) {
  fmt::print("{:<16} {}\n", name, value);
}

}  // namespace

int run_collect_env(std::span<const std::string> arguments) {
  const OptionTable table(
      "reprise collect-env",
      "Prints what a bug report needs: versions, processor, memory, driver, and the "
      "environment without keys and paths.");
  if (OptionTable::asks_for_help(arguments)) {
    fmt::print("{}", table.help_text(arguments));
    return 0;
  }
  if (!table.parse(arguments).empty()) throw InvalidArgument("collect-env takes no arguments");
  utsname system{};
  uname(&system);
  fmt::print("{}\n", version_text());
  print_line("build", build_text());
  print_line("code generation",
             plugin_text(compile::default_codegen_plugin_paths(), "LLVM", "ops run one by one"));
  print_line("GPU kernels",
             plugin_text(kernels::default_cuda_plugin_paths(), "CUDA", "models run on the CPU"));
  print_line("system", find_line("/etc/os-release", "PRETTY_NAME", '='));
  print_line("kernel", fmt::format("{} {} {}", system.sysname, system.release, system.machine));
  print_line("processor", find_line("/proc/cpuinfo", "model name", ':'));
  print_line("cores", cores());
  print_line("caches", cpu_caches());
  print_line("NUMA nodes", first_line("/sys/devices/system/node/online", "unknown"));
  print_line("memory",
             fmt::format("{} in all, {} available",
                         find_line("/proc/meminfo", "MemTotal", ':'),
                         find_line("/proc/meminfo", "MemAvailable", ':')));
  print_line("memory limit", first_line("/sys/fs/cgroup/memory.max", "none"));
  print_line("huge pages", first_line("/sys/kernel/mm/transparent_hugepage/enabled", "unknown"));
  print_line("open files", open_files());
  print_line("NVIDIA driver", gpu_driver());
  fmt::print("environment\n{}", environment_lines());
  return 0;
}

}  // namespace reprise::cli
