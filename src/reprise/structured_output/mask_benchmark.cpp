// Measures the cost of structured output with a large vocabulary: the time to compile a spec, and
// per token the time to make the mask and to accept the token. Prints a table for
// benchmarks/results.
//
// mask_benchmark [NUM_TOKENS [NUM_ANSWERS]]
// mask_benchmark NUM_TOKENS NUM_ANSWERS --schemas FILE  a row of JSON for each schema of a
// collection mask_benchmark NUM_TOKENS --vocabulary                the tokens, in hexadecimal
//
// benchmarks/structured_schemas.py compares the second form with another engine.
// Tokens are drawn evenly from those allowed by a made-up vocabulary (synthetic_vocabulary.h).
#include <fmt/format.h>
#include <time.h>

#include <algorithm>
#include <cstdio>
#include <fstream>
#include <memory>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "reprise/base/error.h"
#include "reprise/base/json.h"
#include "reprise/structured_output/grammar_backend.h"
#include "tests/support/structured_output/synthetic_vocabulary.h"

namespace reprise::structured_output {
namespace {

using Kind = OutputSpec::Kind;

constexpr int kMaxTokens = 200;
constexpr int kNumCompilations = 3;

constexpr const char* kSchema = R"({"type": "object",
 "properties": {
  "id": {"type": "integer", "minimum": 1, "maximum": 99999},
  "name": {"type": "string", "maxLength": 60},
  "email": {"type": "string", "pattern": "^[a-z0-9._-]+@[a-z0-9-]+\\.[a-z]{2,6}$"},
  "status": {"enum": ["new", "active", "blocked", "closed"]},
  "score": {"type": "number"},
  "tags": {"type": "array", "items": {"type": "string"}, "maxItems": 8},
  "address": {"type": "object",
   "properties": {"street": {"type": "string"}, "zip": {"type": "string", "pattern": "^\\d{5}$"},
                  "country": {"type": ["string", "null"]}},
   "required": ["street", "zip"], "additionalProperties": false},
  "items": {"type": "array", "maxItems": 5, "items": {"type": "object",
   "properties": {"sku": {"type": "string"}, "count": {"type": "integer"}},
   "required": ["sku", "count"], "additionalProperties": false}}},
 "required": ["id", "name", "status", "items"], "additionalProperties": false})";

struct Case {
  std::string name;
  OutputSpec spec;
};

std::vector<Case> cases() {
  std::vector<std::string> choices;
  for (int i = 0; i < 100; ++i) choices.push_back(fmt::format("answer number {}", i * 37));
  return {
      {"JSON schema, 8 properties", {.kind = Kind::json_schema, .text = kSchema}},
      {"any JSON object", {.kind = Kind::json_object}},
      {"regex, e-mail", {.kind = Kind::regex, .text = R"([a-z0-9._-]+@[a-z0-9-]+\.[a-z]{2,6})"}},
      {"JSON schema, maxLength 65536",
       {.kind = Kind::json_schema,
        .text = R"({"type": "object", "properties": {"v": {"type": "string", "maxLength": 65536}},
                   "required": ["v"]})"}},
      {"regex, [^\"]{1,200}", {.kind = Kind::regex, .text = R"([^"]{1,200})"}},
      {"regex, ((\\w+ ?)+[,;]?)*\\.", {.kind = Kind::regex, .text = R"(((\w+ ?)+[,;]?)*\.)"}},
      {"regex, (([^a]*b)*[^c]*)*d", {.kind = Kind::regex, .text = "(([^a]*b)*[^c]*)*d"}},
      {"choice of 100", {.kind = Kind::choice, .choices = choices}},
      {"grammar, arithmetic",
       {.kind = Kind::grammar,
        .text =
            "root ::= sum\nsum ::= product (\" + \" product)*\nproduct ::= value (\" * \" value)*\n"
            "value ::= [0-9]+ | \"(\" sum \")\""}},
      {"grammar, ambiguous", {.kind = Kind::grammar, .text = "root ::= root root | [a-z]"}}};
}

/// Processor time of this thread in microseconds; other work on the machine does not count.
double now() {
  timespec time{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) * 1e6 + static_cast<double>(time.tv_nsec) / 1e3;
}

double quantile(std::vector<double>& values, double q) {
  if (values.empty()) return 0;
  std::sort(values.begin(), values.end());
  return values[static_cast<size_t>(q * static_cast<double>(values.size() - 1))];
}

int32_t draw(std::span<const uint32_t> mask, std::mt19937_64& random, std::vector<int32_t>& ids) {
  ids.clear();
  for (size_t word = 0; word < mask.size(); ++word) {
    for (uint32_t bits = mask[word]; bits != 0; bits &= bits - 1) {
      ids.push_back(static_cast<int32_t>(word * 32) + __builtin_ctz(bits));
    }
  }
  return ids.empty() ? -1 : ids[random() % ids.size()];
}

struct Figures {
  std::vector<double> compile_us;
  std::vector<double> mask_us;
  std::vector<double> accept_us;
  int64_t num_steps = 0;
  size_t bytes = 0;
  int num_refused = 0;
};

/// \throws InvalidArgument when the spec is refused
Figures measure(GrammarBackend& backend,
                const OutputSpec& spec,
                int num_answers,
                int num_compiled) {
  Figures figures;
  std::shared_ptr<const CompiledSpec> compiled;
  for (int i = 0; i < num_compiled; ++i) {
    WorkLimit limit;
    const double start = now();
    compiled = backend.compile(spec, limit);
    figures.compile_us.push_back(now() - start);
    figures.num_steps = WorkLimit{}.num_steps_left - limit.num_steps_left;
  }
  std::mt19937_64 random(1);
  std::vector<int32_t> ids;
  const auto sample = [&](TokenConstraint& constraint) {
    for (int i = 0; i < kMaxTokens; ++i) {
      double start = now();
      if (constraint.is_complete()) return;
      const std::span<const uint32_t> mask = constraint.allowed_tokens();
      figures.mask_us.push_back(now() - start);
      const int32_t id = draw(mask, random, ids);
      start = now();
      if (id < 0 || !constraint.accept(id)) return;
      figures.accept_us.push_back(now() - start);
    }
  };
  for (int answer = 0; answer < num_answers; ++answer) {
    try {
      sample(*compiled->start());
    } catch (const InvalidArgument&) {  // beyond its budget
      ++figures.num_refused;
    }
  }
  figures.bytes = compiled->memory_bytes();
  return figures;
}

void print_row(GrammarBackend& backend, const Case& one, int num_answers) {
  Figures figures = measure(backend, one.spec, num_answers, kNumCompilations);
  fmt::print("| {} | {:.1f} | {} | {:.0f} | {} | {:.0f} | {:.0f} | {:.0f} | {:.1f} | {} |\n",
             one.name,
             quantile(figures.compile_us, 0.5) / 1000,
             figures.num_steps,
             static_cast<double>(figures.bytes) / 1024,
             figures.mask_us.size(),
             quantile(figures.mask_us, 0.5),
             quantile(figures.mask_us, 0.99),
             quantile(figures.mask_us, 1),
             quantile(figures.accept_us, 0.5),
             figures.num_refused);
  std::fflush(stdout);
}

/// Prints one row of JSON for each line {"source", "name", "schema"} of the file.
int run_schemas(GrammarBackend& backend, const std::string& path, int num_answers) {
  std::ifstream file(path);
  std::string line;
  while (std::getline(file, line)) {
    const Json entry = parse_json(line, path);
    Json row = {{"source", entry["source"]}, {"name", entry["name"]}};
    try {
      const OutputSpec spec{.kind = Kind::json_schema, .text = entry["schema"].dump()};
      Figures figures = measure(backend, spec, num_answers, 1);
      row["compile_ms"] = figures.compile_us[0] / 1000;
      row["median_us"] = quantile(figures.mask_us, 0.5);
      row["p99_us"] = quantile(figures.mask_us, 0.99);
      row["most_us"] = quantile(figures.mask_us, 1);
      row["masks"] = figures.mask_us.size();
      row["broken"] = figures.num_refused;
      row["kib"] = figures.bytes / 1024;
    } catch (const InvalidArgument& error) {
      row["error"] = error.what();
    }
    fmt::print("{}\n", row.dump());
    std::fflush(stdout);
  }
  return 0;
}

int print_vocabulary(int32_t num_tokens) {
  for (const std::string& token : synthetic_vocabulary(num_tokens, 1).tokens) {
    for (const char byte : token) fmt::print("{:02x}", static_cast<unsigned char>(byte));
    fmt::print("\n");
  }
  return 0;
}

int run(int32_t num_tokens, int num_answers) {
  const auto backend = create_grammar_backend(synthetic_vocabulary(num_tokens, 1));
  fmt::print(
      "| {} tokens | compile ms | steps | KiB | masks | mask us: median | p99 | most | accept us "
      "| refused |\n",
      num_tokens);
  fmt::print("|---|---|---|---|---|---|---|---|---|---|\n");
  for (const Case& one : cases()) print_row(*backend, one, num_answers);
  return 0;
}

}  // namespace
}  // namespace reprise::structured_output

int main(int argc, char** argv) {
  const int num_tokens = argc > 1 ? std::stoi(argv[1]) : 151936;
  const std::string last = argc > 2 ? argv[argc - 1] : "";
  if (last == "--vocabulary") return reprise::structured_output::print_vocabulary(num_tokens);
  const int num_answers = argc > 2 ? std::stoi(argv[2]) : 10;
  if (argc == 5 && std::string(argv[3]) == "--schemas") {
    using namespace reprise::structured_output;
    const auto backend = create_grammar_backend(synthetic_vocabulary(num_tokens, 1));
    return run_schemas(*backend, last, num_answers);
  }
  return reprise::structured_output::run(num_tokens, num_answers);
}
