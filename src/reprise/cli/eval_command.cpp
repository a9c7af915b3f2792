#include <fmt/format.h>

#include <array>
#include <cmath>
#include <fstream>
#include <utility>

#include "reprise/api/llm.h"
#include "reprise/base/error.h"
#include "reprise/bench/offline_charts.h"
#include "reprise/cli/commands.h"
#include "reprise/cli/engine_options.h"
#include "reprise/cli/plot_option.h"
#include "reprise/cli/progress_line.h"
#include "reprise/cli/result_file.h"

namespace reprise::cli {
namespace {

using cudagraph::CudagraphMode;

constexpr std::array kEvalModes = {CudagraphMode::NONE,
                                   CudagraphMode::PIECEWISE,
                                   CudagraphMode::FULL,
                                   CudagraphMode::FULL_DECODE_ONLY,
                                   CudagraphMode::FULL_AND_PIECEWISE};

struct Problem {
  std::string question;
  std::string final_answer;
};

struct EvalArguments {
  api::EngineArgs engine;
  std::string problems;  // default: eval/problems.jsonl of the model
  int32_t limit = 0;
  int32_t max_tokens = 160;
  bool json = false;
  std::string plot;
};

OptionTable make_table(EvalArguments& arguments) {
  OptionTable table("reprise eval MODEL [options]",
                    "Answers word problems greedily and compares the number after '####' with the "
                    "right one, in each cudagraph mode.");
  constexpr const char* kTask = "Task";
  table.add_text("problems",
                 kTask,
                 "FILE",
                 "JSON lines with question and answer, as gsm8k has them.",
                 arguments.problems);
  table.add_integer("limit", kTask, "Only the first N problems; 0 = all.", arguments.limit);
  table.add_integer("max-tokens", kTask, "Longest answer.", arguments.max_tokens);
  table.add_switch("json", "Output", "One JSON object.", arguments.json);
  add_plot_option(table, "Write a page with the correct answers of each mode.", arguments.plot);
  return table;
}

// The number after the last "####", without thousands separators; empty when there is none.
std::string final_number(std::string_view text) {
  const size_t mark = text.rfind("####");
  if (mark == std::string_view::npos) return {};
  std::string number;
  for (char c : text.substr(mark + 4)) {
    if ((c >= '0' && c <= '9') || (c == '-' && number.empty()) || c == '.') {
      number += c;
    } else if (!number.empty() && c != ',') {
      break;
    }
  }
  while (!number.empty() && number.back() == '.') number.pop_back();
  return number;
}

std::vector<Problem> load_problems(const std::string& path, int32_t limit) {
  std::ifstream file(path);
  if (!file)
    throw FileError("E_MISSING", path, "", "cannot be opened; name a file with --problems");
  std::vector<Problem> problems;
  std::string line;
  for (int number = 1; std::getline(file, line); ++number) {
    if (line.empty()) continue;
    const std::string where = fmt::format("{}:{}", path, number);
    const Json document = parse_json(line, where);
    if (!document.is_object() || !document.contains("question") || !document.contains("answer") ||
        !document["question"].is_string() || !document["answer"].is_string()) {
      throw FileError("E_FORMAT", where, "", "needs the texts \"question\" and \"answer\"");
    }
    problems.push_back({document["question"], final_number(document["answer"].get<std::string>())});
    if (limit > 0 && std::cmp_equal(problems.size(), limit)) break;
  }
  if (problems.empty()) throw FileError("E_FORMAT", path, "", "holds no problems");
  return problems;
}

struct Score {
  CudagraphMode mode;
  CudagraphMode resolved;
  size_t num_correct = 0;
  size_t num_problems = 0;
  std::vector<bool> are_correct;  // by problem
  bool same_tokens = true;        // whether all tokens equal the first mode's

  [[nodiscard]] double exact_match() const {
    return static_cast<double>(num_correct) / static_cast<double>(num_problems);
  }
  /// Standard error of a proportion, as lm_eval prints it.
  [[nodiscard]] double standard_error() const {
    const double p = exact_match();
    return num_problems > 1 ? std::sqrt(p * (1 - p) / static_cast<double>(num_problems - 1)) : 0;
  }
};

Score evaluate(const EvalArguments& arguments,
               CudagraphMode mode,
               const std::vector<Problem>& problems,
               std::vector<std::vector<int32_t>>& reference_tokens) {
  api::EngineArgs engine = arguments.engine;
  engine.compilation_config["cudagraph_mode"] = std::string(to_string(mode));
  api::LLM llm(engine);
  std::vector<std::string> prompts;
  for (const Problem& problem : problems) {
    prompts.push_back(
        llm.apply_chat_template(Json::array({{{"role", "user"}, {"content", problem.question}}})));
  }
  sampling::SamplingParams params;
  params.temperature = 0;
  params.max_tokens = arguments.max_tokens;
  const std::vector<api::RequestOutput> results = llm.generate(prompts, params);
  require_complete(results);
  Score score{.mode = mode,
              .resolved = llm.startup_report().resolved.mode,
              .num_problems = problems.size()};
  for (size_t i = 0; i < results.size(); ++i) {
    const std::string answer = final_number(results[i].output.text);
    score.are_correct.push_back(!answer.empty() && answer == problems[i].final_answer);
    if (score.are_correct.back()) ++score.num_correct;
    if (reference_tokens.size() < results.size()) {
      reference_tokens.push_back(results[i].output.token_ids);
    } else if (reference_tokens[i] != results[i].output.token_ids) {
      score.same_tokens = false;
    }
  }
  return score;
}

void write_answers_plot(const std::vector<Score>& scores, const EvalArguments& arguments) {
  std::vector<bench::Answers> answers;
  for (const Score& score : scores) {
    answers.push_back(
        {.name = std::string(to_string(score.mode)), .are_correct = score.are_correct});
  }
  write_plot(arguments.plot,
             fmt::format("{}: correct answers", arguments.engine.model.filename().string()),
             fmt::format("{} problems, greedy", scores.front().num_problems),
             bench::answers_charts(answers));
}

}  // namespace

int run_eval(std::span<const std::string> raw_arguments) {
  EvalArguments arguments;
  OptionTable table = make_table(arguments);
  add_engine_options(table, arguments.engine);
  if (!parse_model_command(table, raw_arguments, "eval", arguments.engine.model)) return 0;
  if (arguments.problems.empty()) {
    arguments.problems = (arguments.engine.model / "eval" / "problems.jsonl").string();
  }
  require_writable("--plot", arguments.plot);
  const std::vector<Problem> problems = load_problems(arguments.problems, arguments.limit);

  std::vector<Score> scores;
  std::vector<std::vector<int32_t>> reference_tokens;
  ProgressLine progress("Modes");
  for (const CudagraphMode mode : kEvalModes) {
    progress.update(scores.size(), kEvalModes.size(), to_string(mode));
    scores.push_back(evaluate(arguments, mode, problems, reference_tokens));
  }
  progress.clear();
  write_answers_plot(scores, arguments);
  if (arguments.json) {
    Json document = {{"num_problems", problems.size()}, {"modes", Json::object()}};
    for (const Score& score : scores) {
      document["modes"][std::string(to_string(score.mode))] = {{"exact_match", score.exact_match()},
                                                               {"stderr", score.standard_error()},
                                                               {"num_correct", score.num_correct},
                                                               {"same_tokens", score.same_tokens}};
    }
    fmt::print("{}\n", document.dump(2));
    return 0;
  }
  fmt::print("{} problems, 0-shot, greedy, strict match of the number after ####\n\n",
             problems.size());
  fmt::print(
      "{:<19} {:<11} {:>6}   {:<6}  {}\n", "cudagraph_mode", "metric", "value", "stderr", "tokens");
  for (const Score& score : scores) {
    fmt::print("{:<19} {:<11} {:>6.4f} ± {:.4f}  {}\n",
               to_string(score.mode),
               "exact_match",
               score.exact_match(),
               score.standard_error(),
               score.same_tokens ? "same as NONE" : "DIFFER from NONE");
  }
  return 0;
}

}  // namespace reprise::cli
