#include "reprise/hub/download/file_choice.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <string>

#include "reprise/base/error.h"
#include "reprise/hub/hub_name.h"

namespace reprise::hub {
namespace {

constexpr std::string_view kWeights = ".safetensors";

bool is_at_top(std::string_view path) { return path.find('/') == std::string_view::npos; }

/// A folder like "1_Pooling" or "2_Dense" of a sentence embedding model.
bool is_in_module_folder(std::string_view path) {
  const size_t slash = path.find('/');
  return slash != std::string_view::npos && is_at_top(path.substr(slash + 1)) &&
         std::isdigit(static_cast<unsigned char>(path.front())) != 0 && path[1] == '_';
}

bool is_text_of_model(std::string_view name) {
  constexpr std::array<std::string_view, 5> kEndings = {
      ".json", ".jinja", ".model", ".tiktoken", ".txt"};
  return std::ranges::any_of(kEndings,
                             [name](std::string_view ending) { return name.ends_with(ending); });
}

bool is_read_by_engine(std::string_view path) {
  if (path.starts_with("additional_chat_templates/")) return path.ends_with(".jinja");
  if (is_in_module_folder(path)) return path.ends_with(".json") || path.ends_with(kWeights);
  if (!is_at_top(path)) return false;
  // Mistral's own format repeats the weights under this name.
  if (path.ends_with(kWeights)) return !path.starts_with("consolidated");
  return is_text_of_model(path);
}

std::vector<std::string> paths_of_models(const std::vector<RepositoryFile>& files) {
  std::vector<std::string> paths;
  for (const RepositoryFile& file : files) {
    if (is_gguf_model(file.path)) paths.push_back(file.path);
  }
  return paths;
}

[[noreturn]] void refuse_without_weights(const std::vector<RepositoryFile>& files,
                                         std::string_view repository) {
  if (const std::vector<std::string> models = paths_of_models(files); !models.empty()) {
    throw InvalidArgument(
        fmt::format("{0} holds GGUF files and no safetensors. Name one, by its quantisation or its "
                    "path: reprise pull {0}:{1}. It has: {2}",
                    repository,
                    models.front(),
                    fmt::join(models, ", ")));
  }
  const bool has_pickle = std::ranges::any_of(files, [](const RepositoryFile& file) {
    return file.path.ends_with(".bin") || file.path.ends_with(".pt") || file.path.ends_with(".pth");
  });
  throw InvalidArgument(fmt::format(
      "{} has no .safetensors at its top level{}",
      repository,
      has_pickle
          ? ", only pickles of PyTorch, which are never read because they can run code; look "
            "for a copy of the model in safetensors, or convert it with transformers: "
            "AutoModelForCausalLM.from_pretrained(...).save_pretrained(FOLDER)"
          : "; is it a model of text?"));
}

}  // namespace

std::vector<RepositoryFile> choose_files(const std::vector<RepositoryFile>& files,
                                         std::string_view wanted,
                                         std::string_view repository) {
  std::vector<RepositoryFile> chosen;
  if (wanted.empty()) {
    std::ranges::copy_if(files, std::back_inserter(chosen), [](const RepositoryFile& file) {
      return is_read_by_engine(file.path);
    });
    const bool has_weights = std::ranges::any_of(chosen, [](const RepositoryFile& file) {
      return is_at_top(file.path) && file.path.ends_with(kWeights);
    });
    if (!has_weights) refuse_without_weights(files, repository);
  } else {
    std::vector<std::string> paths;
    for (const RepositoryFile& file : files) paths.push_back(file.path);
    for (const size_t index : files_of_name(paths, wanted)) chosen.push_back(files[index]);
    if (chosen.empty()) {
      const std::vector<std::string> models = paths_of_models(files);
      throw InvalidArgument(
          fmt::format("{} has no file '{}' and no GGUF of that quantisation. It has: {}",
                      repository,
                      wanted,
                      models.empty() ? fmt::format("{}", fmt::join(paths, ", "))
                                     : fmt::format("{}", fmt::join(models, ", "))));
    }
  }
  std::ranges::stable_sort(chosen, {}, &RepositoryFile::size);
  return chosen;
}

}  // namespace reprise::hub
