#pragma once

#include <string_view>
#include <vector>

#include "reprise/hub/download/listing.h"

namespace reprise::hub {

/// The files of a repository to download. An empty `wanted` means what the engine reads of a model
/// folder: safetensors, configurations, tokenizer, chat templates, and the folders of a sentence
/// embedding model; else `wanted` is a path or a quantisation (files_of_name()). Small files come
/// first.
/// \throws InvalidArgument with what the repository has, when nothing fits
[[nodiscard]] std::vector<RepositoryFile> choose_files(const std::vector<RepositoryFile>& files,
                                                       std::string_view wanted,
                                                       std::string_view repository);

}  // namespace reprise::hub
