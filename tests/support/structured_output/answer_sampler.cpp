// Makes random answers under compiled specs, for tests/integration/structured_output_test.py.
//
// answer_sampler VOCABULARY SEED NUM_ANSWERS < specs
//
// VOCABULARY is a model folder, or a number of made-up tokens. Each input line is {"kind": "json" |
// "regex" | "choice" | "grammar" | "json_object", "spec": ...}; its output line is {"answers":
// [...]} or {"error": "..."}. Tokens are drawn uniformly from the allowed tokens. A model would
// prefer some tokens; a uniform draw soon finds a token that a mask allows by mistake.
#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <iostream>
#include <map>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "reprise/base/error.h"
#include "reprise/base/json.h"
#include "reprise/base/text/utf8.h"
#include "reprise/structured_output/grammar_compiler.h"
#include "reprise/tokenizer/tokenizer.h"
#include "tests/support/structured_output/synthetic_vocabulary.h"

namespace reprise::structured_output {
namespace {

constexpr int kMaxTokens = 2000;

OutputSpec spec_of(const Json& line) {
  static const std::map<std::string, OutputSpec::Kind> kKinds = {
      {"json", OutputSpec::Kind::json_schema},
      {"json_object", OutputSpec::Kind::json_object},
      {"regex", OutputSpec::Kind::regex},
      {"choice", OutputSpec::Kind::choice},
      {"grammar", OutputSpec::Kind::grammar},
      {"structural_tag", OutputSpec::Kind::structural_tag}};
  OutputSpec spec{.kind = kKinds.at(line["kind"].get<std::string>())};
  const Json& given = line["spec"];
  if (spec.kind == OutputSpec::Kind::choice) {
    spec.choices = given.get<std::vector<std::string>>();
  } else {
    spec.text = given.is_string() && spec.kind != OutputSpec::Kind::json_schema
                    ? given.get<std::string>()
                    : given.dump();
  }
  return spec;
}

class AnswerSampler {
 public:
  /// `vocabulary` must outlive the sampler.
  AnswerSampler(const VocabularyBytes& vocabulary, uint64_t seed)
      : vocabulary_(vocabulary), random_(seed), weights_(vocabulary.tokens.size()) {}

  /// Returns nothing when the answer did not end in time. \throws Error when the constraint
  /// contradicts itself
  std::optional<std::string> sample(TokenConstraint& constraint) {
    std::string text;
    for (int i = 0; i < kMaxTokens && !constraint.is_complete(); ++i) {
      const std::span<const uint32_t> mask = constraint.allowed_tokens();
      for (size_t id = 0; id < weights_.size(); ++id) weights_[id] = weight(mask, id, i);
      if (std::all_of(weights_.begin(), weights_.end(), [](double w) { return w == 0; })) {
        throw Error("no token is allowed and the answer is not complete: " + text);
      }
      std::discrete_distribution<int32_t> draw(weights_.begin(), weights_.end());
      const int32_t id = draw(random_);
      if (!constraint.accept(id)) {
        throw Error(fmt::format("the mask allows token {} ({:?}), which is not accepted behind: {}",
                                id,
                                vocabulary_.tokens[static_cast<size_t>(id)],
                                text));
      }
      if (id == vocabulary_.end_token_ids[0]) break;
      text += vocabulary_.tokens[static_cast<size_t>(id)];
    }
    if (!constraint.is_complete()) return {};
    if (!is_valid_utf8(text)) throw Error("the answer is not UTF-8: " + text);
    return text;
  }

 private:
  /// After a while closing tokens become likelier, because a uniform draw would nest without end.
  double weight(std::span<const uint32_t> mask, size_t id, int num_tokens) const {
    const auto token_id = static_cast<int32_t>(id);
    if (!contains(mask, token_id)) return 0;
    if (num_tokens < 40) return 1;
    const auto likely = static_cast<double>(vocabulary_.tokens.size());
    if (token_id == vocabulary_.end_token_ids[0]) return likely;
    const std::string& text = vocabulary_.tokens[id];
    const bool closes = text == "\"" || text == "}" || text == "]";
    return closes ? likely : text.find_first_of("[{,") == std::string::npos ? 1 : 0.001;
  }

  const VocabularyBytes& vocabulary_;
  std::mt19937_64 random_;
  std::vector<double> weights_;
};

VocabularyBytes vocabulary_of(const std::string& name) {
  if (name.find_first_not_of("0123456789") == std::string::npos) {
    return synthetic_vocabulary(std::stoi(name), 1);
  }
  const tokenizer::Tokenizer tokenizer = tokenizer::Tokenizer::load(name);
  return vocabulary_bytes(
      tokenizer, tokenizer.vocab_size(), std::vector<int32_t>{*tokenizer.eos_id()});
}

int run(const std::string& name, uint64_t seed, int num_answers) {
  const VocabularyBytes vocabulary = vocabulary_of(name);
  // Compiling is slow in instrumented builds and on busy machines. This tool does not test compile
  // times, so it allows more time.
  GrammarCompiler compiler([&vocabulary] { return create_grammar_backend(vocabulary); },
                           {.time_limit = std::chrono::minutes(4)});
  std::string line;
  while (std::getline(std::cin, line)) {
    Json out = Json::object();
    try {
      const auto compiled =
          compiler.compile(spec_of(parse_json(line, "line", {.max_depth = 100000})));
      out["answers"] = Json::array();
      AnswerSampler sampler(vocabulary, seed);
      int num_unfinished = 0;
      for (int i = 0; i < num_answers; ++i) {
        const auto constraint = compiled->start();
        const std::optional<std::string> answer = sampler.sample(*constraint);
        if (answer) out["answers"].push_back(*answer);
        if (!answer) ++num_unfinished;
      }
      out["unfinished"] = num_unfinished;
    } catch (const InvalidArgument& error) {
      out = {{"error", error.what()}};
    } catch (const Error& error) {
      out = {{"broken", error.what()}};
    }
    std::cout << out.dump(-1, ' ', true, Json::error_handler_t::replace) << std::endl;
  }
  return 0;
}

}  // namespace
}  // namespace reprise::structured_output

int main(int argc, char** argv) {
  if (argc != 4) {
    fmt::print(stderr, "usage: answer_sampler VOCABULARY SEED NUM_ANSWERS < specs\n");
    return 2;
  }
  return reprise::structured_output::run(argv[1],
                                         std::strtoull(argv[2], nullptr, 10),
                                         static_cast<int>(std::strtol(argv[3], nullptr, 10)));
}
