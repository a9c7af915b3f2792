#include "reprise/api/loading/weight_file_key.h"

#include <fmt/format.h>
#include <sys/stat.h>

#include <algorithm>
#include <cctype>
#include <cerrno>
#include <span>
#include <string_view>
#include <system_error>

#include "reprise/base/error.h"
#include "reprise/weights/files/input_file.h"
#include "reprise/weights/gguf/gguf_model.h"
#include "reprise/weights/packed_copy/packed_index.h"

namespace reprise::api {
namespace {

namespace fs = std::filesystem;

// "NAME-" and "-of-00003.gguf" of "NAME-00001-of-00003.gguf"; both empty for other names.
struct SplitName {
  std::string_view before;
  std::string_view after;
};

SplitName split_name(std::string_view name) {
  constexpr size_t kDigits = 5;
  constexpr std::string_view kOf = "-of-";
  const size_t of = name.rfind(kOf);
  if (of == std::string_view::npos || of < kDigits + 1) return {};
  const std::string_view digits = name.substr(of - kDigits, kDigits);
  const bool is_number = std::ranges::all_of(
      digits, [](char c) { return std::isdigit(static_cast<unsigned char>(c)) != 0; });
  if (!is_number) return {};
  return {.before = name.substr(0, of - kDigits), .after = name.substr(of)};
}

template <typename IsWanted>
std::vector<fs::path> files_in(const fs::path& folder, const IsWanted& is_wanted) {
  std::vector<fs::path> files;
  std::error_code error;
  for (fs::directory_iterator entry(folder, error), end; !error && entry != end;
       entry.increment(error)) {
    if (is_wanted(entry->path().filename().string())) files.push_back(entry->path());
  }
  std::ranges::sort(files);
  return files;
}

uint64_t digest_of_samples(const fs::path& path) {
  constexpr uint64_t kSampleBytes = 4096;
  constexpr uint64_t kMostSamples = 256;
  const weights::InputFile file = weights::InputFile::open(path);
  const uint64_t bytes = file.size_bytes();
  const uint64_t samples = std::min(kMostSamples, (bytes + kSampleBytes - 1) / kSampleBytes);
  std::vector<std::byte> read(samples * kSampleBytes);
  for (uint64_t i = 0; i < samples; ++i) {
    // The first sample is the beginning of the file, and the last one its end.
    const uint64_t last = bytes - std::min(bytes, kSampleBytes);
    const uint64_t offset =
        samples == 1 ? 0 : last / (samples - 1) * i + (i + 1 == samples ? last % (samples - 1) : 0);
    const uint64_t count = std::min(kSampleBytes, bytes - offset);
    file.read_at(offset, std::span(read).subspan(i * kSampleBytes, count), "sample");
  }
  return weights::packed_checksum(read);
}

}  // namespace

std::vector<fs::path> weight_files_of(const fs::path& model) {
  if (!weights::gguf::is_gguf_path(model)) {
    return files_in(model, [](const std::string& name) {
      return name.ends_with(".safetensors") || name.ends_with(".json");
    });
  }
  const std::string name = model.filename().string();
  const SplitName split = split_name(name);
  if (split.after.empty()) return {model};
  const fs::path folder = model.has_parent_path() ? model.parent_path() : fs::path(".");
  return files_in(folder, [&](const std::string& other) {
    const SplitName part = split_name(other);
    return part.before == split.before && part.after == split.after;
  });
}

std::string stamp_of(const fs::path& file) {
  struct stat status{};
  if (::stat(file.c_str(), &status) != 0) {
    throw FileError("E_IO", file.string(), "", std::generic_category().message(errno));
  }
  return fmt::format("{} bytes, modified {}.{:09}, changed {}.{:09}, {}:{}, {:016x}",
                     status.st_size,
                     status.st_mtim.tv_sec,
                     status.st_mtim.tv_nsec,
                     status.st_ctim.tv_sec,
                     status.st_ctim.tv_nsec,
                     status.st_dev,
                     status.st_ino,
                     digest_of_samples(file));
}

}  // namespace reprise::api
