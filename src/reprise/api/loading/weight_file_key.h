#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace reprise::api {

/// The files from which a model's weights are made, in order of their names: all parts of a GGUF
/// file, or the safetensors and JSON files of a folder.
[[nodiscard]] std::vector<std::filesystem::path> weight_files_of(
    const std::filesystem::path& model);

/// A text that differs if a file was changed or replaced: size, times of the last changes, identity
/// in the file system, and a digest of its beginning, its end and up to 256 places between them.
/// \throws FileError
[[nodiscard]] std::string stamp_of(const std::filesystem::path& file);

}  // namespace reprise::api
