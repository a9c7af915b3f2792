#include <dlpack/dlpack.h>
#include <fmt/format.h>
#include <xgrammar/xgrammar.h>

#include <algorithm>
#include <exception>
#include <new>
#include <optional>
#include <utility>
#include <vector>

#include "reprise/base/error.h"
#include "reprise/structured_output/grammar_backend.h"

namespace reprise::structured_output {
namespace {

/// Most characters of whitespace in a row between the tokens of JSON. Without a limit, a model that
/// has begun to write blanks may never stop. The number of a grammar's states grows with the limit.
constexpr int kMaxWhitespace = 4;

class Constraint final : public TokenConstraint {
 public:
  Constraint(const xgrammar::CompiledGrammar& grammar, bool has_end_tokens)
      : matcher_(grammar, std::nullopt, !has_end_tokens),
        mask_(static_cast<size_t>(
            xgrammar::GetBitmaskSize(grammar.GetTokenizerInfo().GetVocabSize()))),
        has_end_tokens_(has_end_tokens) {}

  std::span<const uint32_t> allowed_tokens() override {
    fill();
    return mask_;
  }

  bool accept(int32_t token_id) override {
    if (!matcher_.AcceptToken(token_id)) return false;
    is_filled_ = false;
    return true;
  }

  bool is_complete() override {
    if (has_end_tokens_ && matcher_.IsTerminated()) return true;
    fill();
    return is_complete_;
  }

 private:
  void fill() {
    if (std::exchange(is_filled_, true)) return;
    if (has_end_tokens_ && matcher_.IsTerminated()) {
      std::fill(mask_.begin(), mask_.end(), 0U);
      is_complete_ = true;
      return;
    }
    auto num_words = static_cast<int64_t>(mask_.size());
    DLTensor view{.data = mask_.data(),
                  .device = {kDLCPU, 0},
                  .ndim = 1,
                  .dtype = xgrammar::GetBitmaskDLType(),
                  .shape = &num_words,
                  .strides = nullptr,
                  .byte_offset = 0};
    matcher_.FillNextTokenBitmask(&view);
    is_complete_ = can_only_end();
  }

  [[nodiscard]] bool can_only_end() const {
    std::vector<int32_t> ends = matcher_.GetStopTokenIds();
    const bool can_end = has_end_tokens_ ? contains(mask_, ends.front()) : matcher_.IsTerminated();
    if (!can_end) return false;
    std::sort(ends.begin(), ends.end());
    ends.erase(std::unique(ends.begin(), ends.end()), ends.end());
    int num_allowed = 0;
    for (const uint32_t word : mask_) num_allowed += __builtin_popcount(word);
    for (const int32_t id : ends) num_allowed -= contains(mask_, id) ? 1 : 0;
    return num_allowed == 0;
  }

  xgrammar::GrammarMatcher matcher_;
  std::vector<uint32_t> mask_;
  bool has_end_tokens_;
  bool is_filled_ = false;
  bool is_complete_ = false;
};

class Compiled final : public CompiledSpec {
 public:
  explicit Compiled(xgrammar::CompiledGrammar grammar) : grammar_(std::move(grammar)) {}

  std::unique_ptr<TokenConstraint> start() const override {
    return std::make_unique<Constraint>(grammar_,
                                        !grammar_.GetTokenizerInfo().GetStopTokenIds().empty());
  }
  size_t memory_bytes() const override { return grammar_.MemorySizeBytes(); }

 private:
  xgrammar::CompiledGrammar grammar_;
};

/// An EBNF string literal.
std::string ebnf_literal(std::string_view text) {
  std::string result = "\"";
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (c == '"' || c == '\\') {
      result += {'\\', c};
    } else if (byte < 0x20) {
      result += fmt::format("\\u{:04x}", byte);
    } else {
      result += c;
    }
  }
  return result + '"';
}

std::string choice_grammar(const std::vector<std::string>& choices) {
  std::string grammar = "root ::= ";
  for (size_t i = 0; i < choices.size(); ++i)
    grammar += (i == 0 ? "" : " | ") + ebnf_literal(choices[i]);
  return grammar;
}

class XgrammarBackend final : public GrammarBackend {
 public:
  explicit XgrammarBackend(VocabularyBytes vocabulary)
      : tokens_(vocabulary.tokens,
                xgrammar::VocabType::RAW,
                static_cast<int>(vocabulary.tokens.size()),
                vocabulary.end_token_ids) {}

  std::shared_ptr<const CompiledSpec> compile(const OutputSpec& given) override {
    const OutputSpec spec = normalise_spec(given);
    try {
      return std::make_shared<Compiled>(compile_normal(spec));
    } catch (const std::bad_alloc&) {
      throw;
    } catch (const std::exception& error) {
      throw InvalidArgument(fmt::format("{}: {}", to_string(spec.kind), error.what()));
    }
  }

 private:
  xgrammar::CompiledGrammar compile_normal(const OutputSpec& spec) const {
    // One compiler per spec and no cache: GrammarCompiler decides which specs are kept.
    xgrammar::GrammarCompiler compiler(tokens_, 1, false);
    switch (spec.kind) {
      case OutputSpec::Kind::json_object:
      case OutputSpec::Kind::json_schema:
        return compiler.CompileJSONSchema(
            spec.text, spec.any_whitespace, std::nullopt, std::nullopt, true, kMaxWhitespace);
      case OutputSpec::Kind::regex:
        return compiler.CompileRegex(spec.text);
      case OutputSpec::Kind::choice:
        return compiler.CompileGrammar(choice_grammar(spec.choices));
      case OutputSpec::Kind::grammar:
        return compiler.CompileGrammar(spec.text);
      case OutputSpec::Kind::structural_tag:
        return compiler.CompileStructuralTag(spec.text);
    }
    throw InvalidArgument("unknown kind of spec");
  }

  xgrammar::TokenizerInfo tokens_;
};

}  // namespace

std::string_view why_unavailable() { return {}; }

std::unique_ptr<GrammarBackend> create_grammar_backend(VocabularyBytes vocabulary) {
  return std::make_unique<XgrammarBackend>(std::move(vocabulary));
}

}  // namespace reprise::structured_output
