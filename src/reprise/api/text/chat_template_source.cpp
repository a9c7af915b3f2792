#include "reprise/api/text/chat_template_source.h"

#include <fmt/format.h>

#include <fstream>
#include <iterator>
#include <string_view>
#include <utility>

#include "reprise/base/error.h"

namespace reprise::api {
namespace {

constexpr uintmax_t kMaxTemplateBytes = uintmax_t{4} << 20;

std::string read_given(const std::string& given) {
  const std::filesystem::path path = given;
  std::error_code error;
  if (!std::filesystem::is_regular_file(path, error)) {
    // A path never contains these characters, and nearly every template contains one of them.
    if (given.find_first_of("{}\n") != std::string::npos) return given;
    throw InvalidArgument(fmt::format(
        "--chat-template: '{}' is not a file, and no template either: it has no braces", given));
  }
  if (const uintmax_t bytes = std::filesystem::file_size(path, error);
      error || bytes > kMaxTemplateBytes) {
    throw InvalidArgument(
        fmt::format("--chat-template: {} has more than {} bytes", given, kMaxTemplateBytes));
  }
  std::ifstream file(path, std::ios::binary);
  std::string text{std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
  if (!file) throw InvalidArgument(fmt::format("--chat-template: {} cannot be read", given));
  return text;
}

}  // namespace

std::optional<SourcedChatTemplate> load_chat_template(const std::optional<std::string>& given,
                                                      const tokenizer::TokenizerConfig& config,
                                                      const std::filesystem::path& folder) {
  std::string source = given ? read_given(*given) : std::string(config.chat_template());
  if (source.empty()) return std::nullopt;
  try {
    chat_template::ChatTemplate parsed = chat_template::ChatTemplate::parse(source);
    const TemplateForm form = find_template_form(parsed, config);
    return SourcedChatTemplate{
        .source = std::move(source), .parsed = std::move(parsed), .form = form};
  } catch (const InvalidArgument& error) {
    if (given) throw InvalidArgument(fmt::format("--chat-template: {}", error.what()));
    if (!std::filesystem::is_directory(folder)) {  // the model is a GGUF file
      throw FileError("E_TEMPLATE", folder.string(), "tokenizer.chat_template", error.what());
    }
    throw FileError(
        "E_TEMPLATE", (folder / config.template_file).string(), "chat_template", error.what());
  }
}

}  // namespace reprise::api
