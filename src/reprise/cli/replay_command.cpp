#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "reprise/api/llm.h"
#include "reprise/api/loading/engine_record.h"
#include "reprise/api/loading/loaded_engine.h"
#include "reprise/api/replay.h"
#include "reprise/base/error.h"
#include "reprise/cli/commands.h"
#include "reprise/cli/configuration.h"
#include "reprise/cli/engine_options.h"
#include "reprise/cli/progress.h"
#include "reprise/cli/rank_session.h"
#include "reprise/cli/standard_streams.h"
#include "reprise/replay_log/log_reader.h"

namespace reprise::cli {
namespace {

using replay_log::LogContent;
using replay_log::RequestRecord;

struct ReplayArguments {
  std::vector<std::string> requests;  // empty: all
  bool lists = false;
  bool verbose = false;
};

OptionTable make_table(api::EngineArgs& engine, ReplayArguments& arguments) {
  OptionTable table(
      "reprise replay FILE [options]",
      "Repeats the answers of a file of --replay-log and compares tokens and logits bit by bit. "
      "The "
      "engine is made as the file says; options that are given replace those of the file. Exit "
      "code 0: all are equal. 1: one is not, or could not be repeated.");
  constexpr const char* kReplay = "Replay";
  table.add(
      {.name = "request",
       .group = kReplay,
       .value_name = "ID",
       .help = "Only the answer of this id; may be repeated.",
       .apply = [&arguments](std::string_view value) { arguments.requests.emplace_back(value); }});
  table.add_switch(
      "list", kReplay, "Lists the answers of the file, and runs nothing.", arguments.lists);
  table.add_switch(
      "verbose", kReplay, "A line for each answer, and more about start-up.", arguments.verbose);
  add_engine_options(table, engine);
  return table;
}

/// Takes the file out of the arguments: otherwise its argument, which has no option name, would be
/// read as a model.
std::filesystem::path take_file(const OptionTable& table, std::vector<std::string>& arguments) {
  const std::vector<std::string> positional = table.scan(arguments).positional;
  if (positional.size() != 1) {
    throw InvalidArgument(positional.empty()
                              ? "replay needs a file of --replay-log"
                              : fmt::format("unexpected argument '{}'", positional[1]));
  }
  arguments.erase(std::ranges::find(arguments, positional[0]));
  return positional[0];
}

/// Keeps only the requests that the user named.
void select(LogContent& log, const std::vector<std::string>& wanted) {
  if (wanted.empty()) return;
  for (const std::string& id : wanted) {
    if (std::ranges::find(log.requests, id, &RequestRecord::id) == log.requests.end()) {
      throw InvalidArgument(
          fmt::format("--request: the file has no answer '{}'; --list shows what it has", id));
    }
  }
  std::erase_if(log.requests, [&wanted](const RequestRecord& request) {
    return std::ranges::find(wanted, request.id) == wanted.end();
  });
}

void print_list(const LogContent& log) {
  // The part of "2026-11-28T15:19:23Z" that is printed: from the month to the minute. With it, a
  // line with the id of a chat fits into 80 columns.
  constexpr size_t kMonth = 5;
  constexpr size_t kMonthToMinute = 11;
  fmt::print("prompt tokens end    since       id\n");
  for (const RequestRecord& request : log.requests) {
    const auto since = log.engines.at(request.engine).at("at").get<std::string>();
    fmt::print("{:>6} {:>6} {:<6} {:<11} {}\n",
               request.prompt_token_ids.size(),
               request.token_ids.size(),
               request.finish_reason,
               since.substr(kMonth, kMonthToMinute),
               request.id);
  }
}

struct Counts {
  size_t num_answers = 0;
  size_t num_tokens = 0;
  size_t num_undigested = 0;  // tokens without a digest
  size_t num_different = 0;
  size_t num_not_run = 0;
};

/// Prints the outcome of each answer, and counts outcomes.
class Report {
 public:
  Report(Json logged, bool verbose) : logged_(std::move(logged)), verbose_(verbose) {}

  void add(const api::ReplayedAnswer& answer, const api::LoadedEngine& engine, Counts& counts) {
    const RequestRecord& logged = *answer.logged;
    ++counts.num_answers;
    if (!answer.problem.empty()) {
      ++counts.num_not_run;
      fmt::print("{}:\n  not repeated: {}\n", logged.id, answer.problem);
      return;
    }
    counts.num_tokens += logged.token_ids.size();
    counts.num_undigested += static_cast<size_t>(std::ranges::count(logged.digests, uint64_t{0}));
    if (!answer.difference) {
      if (verbose_) fmt::print("{}: {} tokens are equal\n", logged.id, logged.token_ids.size());
      return;
    }
    ++counts.num_different;
    fmt::print("{}:\n  {}\n", logged.id, describe(*answer.difference, logged, answer.replayed));
    if (!answer.cause.empty()) fmt::print("  likely cause: {}\n", answer.cause);
    // The causes are those of the engine, so print them once.
    if (std::exchange(has_causes_, true)) return;
    Json now = api::engine_record(engine);
    api::add_file_digests(engine.args.model, now);
    for (const std::string& cause : api::likely_causes(logged_, now))
      fmt::print("  likely cause: {}\n", cause);
  }

 private:
  Json logged_;
  bool verbose_;
  bool has_causes_ = false;
};

/// The options of the record; options of the command line replace them.
api::EngineArgs args_for(const Json& record,
                         const std::filesystem::path& file,
                         std::span<const std::string> given) {
  api::EngineArgs args;
  try {
    args = api::args_of_record(record);
  } catch (const Json::exception& error) {
    throw FileError("E_REPLAY_LOG", file.string(), "options", error.what());
  }
  ReplayArguments again;
  (void)configure(make_table(args, again), given);
  return args;
}

/// The requests of each engine of the log that has requests, in the order of the file.
std::vector<std::pair<std::string, std::vector<RequestRecord>>> by_engine(LogContent& log) {
  std::vector<std::pair<std::string, std::vector<RequestRecord>>> groups;
  for (RequestRecord& request : log.requests) {
    auto group = std::ranges::find(groups, request.engine, [](const auto& of) { return of.first; });
    if (group == groups.end()) group = groups.insert(group, {request.engine, {}});
    group->second.push_back(std::move(request));
  }
  return groups;
}

void print_counts(const Counts& counts) {
  fmt::print("{} of {} answers are equal ({} tokens); {} different, {} not repeated\n",
             counts.num_answers - counts.num_different - counts.num_not_run,
             counts.num_answers,
             counts.num_tokens,
             counts.num_different,
             counts.num_not_run);
  if (counts.num_undigested > 0) {
    fmt::print(
        "{} tokens were sampled on a device and have no digest: only the tokens themselves "
        "were compared\n",
        counts.num_undigested);
  }
}

}  // namespace

int run_replay(std::span<const std::string> raw_arguments) {
  ReplayArguments arguments;
  api::EngineArgs given;
  const OptionTable table = make_table(given, arguments);
  std::vector<std::string> words(raw_arguments.begin(), raw_arguments.end());
  const bool asks = OptionTable::asks_for_help(words);
  const std::filesystem::path file = asks ? "" : take_file(table, words);
  if (!configure(table, words)) return 0;
  LogContent log = replay_log::read_log(file);
  for (const std::string& problem : log.problems) print_error("{}: {}\n", file.string(), problem);
  select(log, arguments.requests);
  if (arguments.lists) {
    print_list(log);
    return 0;
  }
  Counts counts;
  const auto groups = by_engine(log);
  for (const auto& [engine_id, requests] : groups) {
    const Json& record = log.engines.at(engine_id);
    api::EngineArgs args = args_for(record, file, words);
    if (args.ranks_per_engine() > 1 && groups.size() > 1) {
      throw InvalidArgument(
          "the file has answers of several engines, and one of them has several ranks; choose "
          "answers of one engine with --request");
    }
    RankSession ranks(args);
    if (ranks.is_elsewhere()) return ranks.run(args);
    StartupProgress progress(arguments.verbose);
    api::LLM llm(args, progress.observer());
    progress.summarize(llm);
    Report report(record, arguments.verbose);
    api::replay_requests(llm.loaded(), requests, [&](const api::ReplayedAnswer& answer) {
      report.add(answer, llm.loaded(), counts);
    });
  }
  print_counts(counts);
  return counts.num_different + counts.num_not_run > 0 ? 1 : 0;
}

}  // namespace reprise::cli
