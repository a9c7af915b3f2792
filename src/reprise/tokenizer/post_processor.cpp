#include "reprise/tokenizer/post_processor.h"

#include <fmt/format.h>

#include <array>

#include "reprise/tokenizer/vocabulary.h"

namespace reprise::tokenizer {
namespace {

constexpr size_t kMaxTypeId = 1 << 16;

constexpr std::array<std::string_view, 4> kPostProcessors = {
    "Sequence", "TemplateProcessing", "RobertaProcessing", "ByteLevel"};

// ["</s>", 2]
int32_t read_token_and_id(const Component& component, std::string_view key) {
  const std::vector<Component> parts = component.at(key).elements();
  if (parts.size() != 2) component.at(key).fail("must be a token and its id");
  return static_cast<int32_t>(parts[1].integer(Vocabulary::kMaxId - 1));
}

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

// The "pair" of a template: special tokens around text A and text B, in this order. The types of
// the tokens begin with 0 and change to 1 at most once, between the texts.
std::optional<PairTemplate> read_pair_template(const Component& component) {
  if (!component.has("pair") || component.at("pair").is_null()) return std::nullopt;
  PairTemplate pair;
  std::vector<int32_t>* ids = &pair.prefix;
  std::vector<size_t> types;  // of A and of B
  for (const Component& piece : component.at("pair").elements()) {
    const bool is_token = piece.has("SpecialToken");
    const Component part = piece.at(is_token ? "SpecialToken" : "Sequence");
    const size_t type = part.has("type_id") ? part.at("type_id").integer(kMaxTypeId) : 0;
    if (type > 1) return std::nullopt;
    const bool is_between = ids == &pair.middle;
    if (type == 1 && is_between && !pair.second_begin) pair.second_begin = ids->size();
    // The type is 1 from the second text on, or 0 for all tokens.
    const bool is_second = ids == &pair.suffix || (is_between && pair.second_begin.has_value());
    if ((type == 1) != (is_second && pair.second_begin.has_value())) return std::nullopt;
    if (is_token) {
      append_special_token(part, component, *ids);
      continue;
    }
    const bool is_first_text = part.at("id").text() == "A";
    if (is_first_text != (ids == &pair.prefix) || ids == &pair.suffix) return std::nullopt;
    ids = is_first_text ? &pair.middle : &pair.suffix;
  }
  if (ids != &pair.suffix) return std::nullopt;
  return pair;
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
  } else if (type == "RobertaProcessing") {
    add_roberta(component);
  } else if (type != "ByteLevel") {  // it only moves offsets, which this engine does not compute
    component.at("type").fail_unknown("post-processor", type, kPostProcessors);
  }
}

// The template is <s> A </s>; for two texts it is <s> A </s></s> B </s>, and both have the same
// type.
void PostProcessor::add_roberta(const Component& component) {
  const int32_t begin = read_token_and_id(component, "cls");
  const int32_t end = read_token_and_id(component, "sep");
  pair = PairTemplate{.prefix = {begin}, .middle = {end, end}, .suffix = {end}, .second_begin = {}};
  prefix.insert(prefix.begin(), begin);
  suffix.push_back(end);
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
  pair = read_pair_template(component);
  prefix.insert(prefix.begin(), before.begin(), before.end());
  suffix.insert(suffix.end(), after.begin(), after.end());
}

}  // namespace reprise::tokenizer
