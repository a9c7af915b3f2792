#include "reprise/tokenizer/post_processor.h"

#include <fmt/format.h>

#include <array>

#include "reprise/tokenizer/vocabulary.h"

namespace reprise::tokenizer {
namespace {

constexpr std::array<std::string_view, 3> kPostProcessors = {
    "Sequence", "TemplateProcessing", "ByteLevel"};

void append_special_token(const Component& piece,
                          const Component& component,
                          std::vector<int32_t>& ids) {
  const std::string name = piece.at("id").text();
  const Component tokens = component.at("special_tokens");
  if (!tokens.has(name)) piece.fail(fmt::format("'{}' is not among special_tokens", name));
  for (const Component& id : tokens.at(name).at("ids").elements()) {
    ids.push_back(static_cast<int32_t>(id.integer(Vocabulary::kMaxId - 1)));
  }
}

}  // namespace

PostProcessor::PostProcessor(const Component& component) {
  if (!component.is_null()) add(component);
}

void PostProcessor::add(const Component& component) {
  const std::string type = component.type();
  if (type == "Sequence") {
    for (const Component& child : component.elements("processors")) add(child);
  } else if (type == "TemplateProcessing") {
    add_template(component);
  } else if (type != "ByteLevel") {  // it only moves offsets, which this engine does not compute
    component.at("type").fail_unknown("post-processor", type, kPostProcessors);
  }
}

void PostProcessor::add_template(const Component& component) {
  std::vector<int32_t> before;
  std::vector<int32_t> after;
  bool has_text = false;
  for (const Component& piece : component.at("single").elements()) {
    if (piece.has("SpecialToken")) {
      append_special_token(piece.at("SpecialToken"), component, has_text ? after : before);
      continue;
    }
    const Component sequence = piece.at("Sequence");
    const std::string name = sequence.at("id").text();
    if (has_text || name != "A") sequence.fail("a template must hold sequence A exactly once");
    has_text = true;
  }
  if (!has_text) component.at("single").fail("a template must hold sequence A exactly once");
  prefix.insert(prefix.begin(), before.begin(), before.end());
  suffix.insert(suffix.end(), after.begin(), after.end());
}

}  // namespace reprise::tokenizer
