#include "reprise/weights/files/checkpoint.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <utility>

#include "reprise/base/error.h"
#include "reprise/weights/convert.h"
#include "reprise/weights/files/config_reader.h"

namespace reprise::weights {
namespace {

constexpr std::string_view kSingleFile = "model.safetensors";
constexpr std::string_view kIndexFile = "model.safetensors.index.json";
// Enough for about 80 000 tensors; the index of a 405-billion-parameter Llama has 100 KB.
constexpr uint64_t kMaxIndexBytes = uint64_t{8} << 20;
// Each takes one descriptor; this is the usual soft limit of a process.
constexpr size_t kMaxShards = 1024;

using ShardNames = std::map<std::string, std::vector<std::string>>;  // file -> tensors

ShardNames read_index(const ModelDirectory& directory, std::string_view index_name) {
  const std::string path = directory.path_of(index_name);
  const Json index =
      parse_json_file(directory.read_text(index_name, kMaxIndexBytes), path, "E_INDEX");
  const auto map = index.find("weight_map");
  if (map == index.end() || !map->is_object()) {
    throw FileError("E_INDEX", path, "weight_map", "must be an object of tensor name to file name");
  }
  ShardNames shards;
  for (const auto& [tensor, file] : map->items()) {
    if (!file.is_string()) {
      throw FileError("E_INDEX", path, visible(tensor), "must name a file");
    }
    std::string name = file.get<std::string>();
    if (name.starts_with("./")) name.erase(0, 2);
    shards[std::move(name)].push_back(tensor);
    if (shards.size() > kMaxShards) {
      throw FileError(
          "E_INDEX", path, "weight_map", fmt::format("names more than {} files", kMaxShards));
    }
  }
  return shards;
}

InputFile open_shard(const ModelDirectory& directory,
                     const std::string& file_name,
                     std::string_view index_name) {
  try {
    return directory.open(file_name);
  } catch (const FileError& error) {
    if (error.code() == "E_PATH") {
      throw FileError(
          "E_PATH",
          directory.path_of(index_name),
          "weight_map",
          fmt::format("names '{}', which is not a plain file of this folder", visible(file_name)));
    }
    if (error.code() != "E_MISSING") throw;
    throw FileError("E_MISSING",
                    directory.path_of(file_name),
                    "",
                    fmt::format("this shard is listed in {} but is not there; was the download "
                                "complete?",
                                index_name));
  }
}

// The number after `mark` in "model-00001-of-00003.safetensors"; 0: there is none.
size_t number_behind(std::string_view name, std::string_view mark) {
  const size_t at = name.rfind(mark);
  if (at == std::string_view::npos) return 0;
  size_t number = 0;
  for (const char c : name.substr(at + mark.size(), 5)) {
    if (c < '0' || c > '9') return 0;
    number = number * 10 + static_cast<size_t>(c - '0');
  }
  return number;
}

// Weights without an index, under any name, which vLLM also reads. Files whose names begin with one
// of these are in another format, or belong to an adapter.
std::vector<std::string> unlisted_files(const ModelDirectory& directory) {
  std::vector<std::string> names = directory.names_with_ending(".safetensors", kMaxShards + 1);
  std::erase_if(names, [](std::string_view name) {
    return name.starts_with("consolidated") || name.starts_with("adapter_");
  });
  if (names.size() > kMaxShards) {
    throw FileError("E_INDEX",
                    directory.path().string(),
                    "",
                    fmt::format("has more than {} .safetensors files", kMaxShards));
  }
  const size_t count = names.empty() ? 0 : number_behind(names.front(), "-of-");
  if (count != 0 && count != names.size()) {
    throw FileError(
        "E_MISSING",
        directory.path().string(),
        "",
        fmt::format("has {} of {} shards; was the download complete?", names.size(), count));
  }
  return names;
}

[[noreturn]] void throw_no_weights(const ModelDirectory& directory) {
  const bool has_pickle =
      directory.contains("pytorch_model.bin") || directory.contains("pytorch_model.bin.index.json");
  throw FileError("E_MISSING",
                  directory.path().string(),
                  "",
                  fmt::format("has neither {} nor {}{}",
                              kSingleFile,
                              kIndexFile,
                              has_pickle ? "; pytorch_model.bin is a pickle and is never read, "
                                           "convert it to safetensors"
                                         : ""));
}

}  // namespace

Checkpoint Checkpoint::open(const ModelDirectory& directory) {
  Checkpoint checkpoint(directory.path().string());
  // If both exist, the single file has precedence, as in transformers.
  if (directory.contains(kSingleFile)) {
    checkpoint.add_file(directory.open(kSingleFile));
  } else if (directory.contains(kIndexFile)) {
    checkpoint.add_shards(directory, kIndexFile);
  } else {
    const std::vector<std::string> names = unlisted_files(directory);
    if (names.empty()) throw_no_weights(directory);
    for (const std::string& name : names) checkpoint.add_file(directory.open(name));
    checkpoint.warnings_.push_back(
        fmt::format("{}: has neither {} nor {}; its weights are read from {}{}",
                    directory.path().string(),
                    kSingleFile,
                    kIndexFile,
                    visible(names.front()),
                    names.size() == 1 ? "" : fmt::format(" and {} more files", names.size() - 1)));
  }
  return checkpoint;
}

const SafetensorsFile& Checkpoint::add_file(InputFile input) {
  files_.push_back(std::make_unique<const SafetensorsFile>(std::move(input)));
  const SafetensorsFile& file = *files_.back();
  for (const TensorEntry& tensor : file.tensors()) {
    const auto [entry, is_new] = tensors_.try_emplace(tensor.name, Location{&file, &tensor});
    if (!is_new) {
      throw FileError("E_INDEX",
                      file.path(),
                      visible(tensor.name),
                      "is also stored in " + entry->second.file->path());
    }
    total_bytes_ += tensor.size_bytes();
  }
  return file;
}

void Checkpoint::add_shards(const ModelDirectory& directory, std::string_view index_name) {
  for (const auto& [file_name, names] : read_index(directory, index_name)) {
    const SafetensorsFile& file = add_file(open_shard(directory, file_name, index_name));
    size_t num_found = 0;
    for (const std::string& name : names) {
      if (file.find(name) != nullptr) {
        ++num_found;
        continue;
      }
      // As in Transformers and vLLM, only tensors that the model needs must be present.
      warnings_.push_back(fmt::format(
          "{}: {} says that {} is here, but it is not", file.path(), index_name, visible(name)));
    }
    if (num_found < file.tensors().size()) {
      warnings_.push_back(fmt::format("{}: {} tensors are not listed in {}",
                                      file.path(),
                                      file.tensors().size() - num_found,
                                      index_name));
    }
  }
}

const TensorSpec* Checkpoint::find(std::string_view name) const {
  const auto found = tensors_.find(name);
  return found == tensors_.end() ? nullptr : &found->second.tensor->spec;
}

std::vector<std::string_view> Checkpoint::names() const {
  std::vector<std::string_view> names;
  names.reserve(tensors_.size());
  for (const auto& [name, location] : tensors_) names.push_back(name);
  return names;
}

const Checkpoint::Location& Checkpoint::location_of(std::string_view name) const {
  const auto found = tensors_.find(name);
  if (found == tensors_.end()) {
    throw FileError("E_MISSING", path_, visible(name), "no such tensor in this checkpoint");
  }
  return found->second;
}

void Checkpoint::read(std::string_view name, DType dtype, std::span<std::byte> dst) const {
  const Location& location = location_of(name);
  const DType stored = location.tensor->spec.dtype;
  const uint64_t num_elements = location.tensor->size_bytes() / dtype_bytes(stored);
  require_size(name, num_elements, dtype, dst);
  read_elements(location, 0, dtype, dst);
}

bool Checkpoint::reads_rows(std::string_view name) const {
  const TensorSpec* spec = find(name);
  return spec != nullptr && !spec->shape.empty() && spec->shape[0] > 0;
}

void Checkpoint::read_rows(std::string_view name,
                           RowRange rows,
                           DType dtype,
                           std::span<std::byte> dst) const {
  const Location& location = location_of(name);
  const TensorSpec& spec = location.tensor->spec;
  const auto num_rows = static_cast<uint64_t>(spec.shape[0]);
  const uint64_t row_elements = location.tensor->size_bytes() / dtype_bytes(spec.dtype) / num_rows;
  require_size(name, static_cast<uint64_t>(rows.count) * row_elements, dtype, dst);
  read_elements(location, static_cast<uint64_t>(rows.first) * row_elements, dtype, dst);
}

void Checkpoint::read_elements(const Location& location,
                               uint64_t first,
                               DType dtype,
                               std::span<std::byte> dst) {
  const auto& [file, tensor] = location;
  const DType stored = tensor->spec.dtype;
  const uint64_t begin = first * dtype_bytes(stored);
  if (stored == dtype) return file->read(*tensor, begin, dst);
  if (!is_convertible(stored, dtype)) {
    throw FileError(
        "E_DTYPE",
        file->path(),
        visible(tensor->name),
        fmt::format(
            "is stored as {} and cannot be read as {}", dtype_name(stored), dtype_name(dtype)));
  }
  // Small enough for the stack and the first cache levels, and large enough to hide the system
  // call.
  constexpr uint64_t kChunkElements = uint64_t{16} << 10;
  alignas(64) std::array<std::byte, kChunkElements * 4> staging;
  const uint64_t num_elements = dst.size() / dtype_bytes(dtype);
  for (uint64_t done = 0; done < num_elements; done += kChunkElements) {
    const uint64_t count = std::min(kChunkElements, num_elements - done);
    const auto chunk = std::span(staging).first(count * dtype_bytes(stored));
    file->read(*tensor, begin + done * dtype_bytes(stored), chunk);
    convert(
        stored, chunk, dtype, dst.subspan(done * dtype_bytes(dtype), count * dtype_bytes(dtype)));
  }
}

}  // namespace reprise::weights
