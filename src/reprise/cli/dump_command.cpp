#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <utility>
#include <vector>

#include "reprise/api/graphs/graph_microscope.h"
#include "reprise/api/loading/compiled_model.h"
#include "reprise/api/loading/engine_loader.h"
#include "reprise/base/error.h"
#include "reprise/base/nearest_name.h"
#include "reprise/cli/commands.h"
#include "reprise/cli/dump_report.h"
#include "reprise/cli/engine_options.h"
#include "reprise/cli/graph_profile_page.h"
#include "reprise/cli/graph_profile_text.h"
#include "reprise/cli/log_environment.h"
#include "reprise/cli/progress.h"
#include "reprise/cudagraph/graph_key.h"

namespace reprise::cli {
namespace {

struct DumpArguments {
  api::EngineArgs engine;
  int32_t rank = 0;
  std::filesystem::path output;  // empty: standard output only
  std::string format;            // empty: text, and with --output all
  bool has_graphs = false;
};

constexpr std::array<std::string_view, 4> kFormats = {"text", "html", "svg", "all"};

OptionTable make_table(DumpArguments& arguments) {
  OptionTable table(
      "reprise dump MODEL [options]",
      "Compiles a model and shows every stage: pieces, ops before and after the passes, "
      "launches, memory, generated kernels. Without --graphs it captures nothing, runs nothing, "
      "and neither reads nor writes the compile cache. --load-format dummy needs no weights.");
  table.add({.name = "output",
             .short_name = "-o",
             .group = "Output",
             .value_name = "DIR",
             .help =
                 "Also write summary.txt, index.html, split.svg, and in a folder for each rank the "
                 "program after every pass and the generated code.",
             .apply = [&](std::string_view value) { arguments.output = value; }});
  table.add({.name = "format",
             .group = "Output",
             .value_name = "F",
             .help = "text, html, svg, or all (needs --output).",
             .default_text = "text; all with --output",
             .apply = [&](std::string_view value) {
               if (std::find(kFormats.begin(), kFormats.end(), value) == kFormats.end()) {
                 throw InvalidArgument(
                     fmt::format("--format: '{}' is not one of text, html, svg, all{}",
                                 value,
                                 did_you_mean(value, kFormats)));
               }
               arguments.format = value;
             }});
  table.add_switch(
      "graphs",
      "Output",
      "Also start the engine, replay and time each graph, and write graphs.html with a "
      "page of each one; needs --output.",
      arguments.has_graphs);
  table.add_integer(
      "rank",
      "Output",
      "With --tensor-parallel-size or --pipeline-parallel-size: the rank whose program is shown.",
      arguments.rank);
  return table;
}

void write_file(const std::filesystem::path& path, const std::string& content) {
  std::ofstream file(path, std::ios::binary | std::ios::trunc);
  file.write(content.data(), static_cast<std::streamsize>(content.size()));
  if (!file.flush()) {
    throw Error(fmt::format("--output: {}: {}", path.string(), std::strerror(errno)));
  }
}

// Runs before the model is loaded, so that a bad path fails early.
void create_folder(const std::filesystem::path& folder) {
  std::error_code failed;
  std::filesystem::create_directories(folder, failed);
  if (failed || !std::filesystem::is_directory(folder)) {
    throw InvalidArgument(fmt::format("--output: {}: cannot make this folder: {}",
                                      folder.string(),
                                      failed ? failed.message() : "it is a file"));
  }
}

void require_something_compiled(const api::CompiledModel& model) {
  const compile::CompilationReport& compilation = model.report.compilation;
  if (!compilation.refused.empty()) {
    throw InvalidArgument(fmt::format("this model cannot be traced, and runs as at level 0: {}",
                                      compilation.refused));
  }
  if (!compilation.guarded.empty()) {
    throw InvalidArgument(
        fmt::format("level 1 has no program of this model for all numbers of tokens to dump: {}",
                    compilation.guarded));
  }
  if (model.stages.after.pieces.empty()) {
    throw InvalidArgument(
        "level 0 compiles nothing, so there is nothing to dump; ask for a level (-cc.mode 3) and "
        "leave out --enforce-eager and -O0");
  }
}

std::string model_name(const std::filesystem::path& model) {
  const std::filesystem::path folder = model.has_filename() ? model : model.parent_path();
  return folder.filename().string();
}

/// "FULL-tokens8-reqs8-uniform.html"
std::string graph_file_name(const runner::GraphProfile& profile) {
  std::string name = cudagraph::graph_key_text(profile.mode, profile.descriptor);
  std::ranges::replace_if(name, [](char c) { return c == ':' || c == ','; }, '-');
  std::erase(name, '=');
  return name + ".html";
}

void write_graph_pages(const DumpArguments& arguments) {
  api::EngineArgs engine = arguments.engine;
  engine.compilation_config.erase("debug_dump_path");
  api::GraphMicroscope microscope(engine, {});
  create_folder(arguments.output / "graphs");
  std::vector<ListedGraph> list;
  std::vector<std::pair<std::string, std::string>> facts;
  for (const cudagraph::PlannedKey& key : microscope.keys()) {
    const runner::GraphProfile profile = microscope.profile(key);
    const std::string address = "graphs/" + graph_file_name(profile);
    write_file(arguments.output / address, profile_page(profile));
    list.push_back({.key = cudagraph::graph_key_text(key.mode, key.descriptor),
                    .state = "captured",
                    .note = fmt::format("{} nodes, {} replayed, {} without its graph",
                                        profile.nodes.size(),
                                        time_text(profile.replay.median),
                                        time_text(profile.eager.median)),
                    .address = address});
    if (!facts.empty()) continue;
    for (const auto& [name, value] : profile.engine.items()) {
      facts.emplace_back(name, value.is_string() ? value.get<std::string>() : value.dump());
    }
  }
  write_file(
      arguments.output / "graphs.html",
      graph_list_page("Graphs of " + model_name(engine.model), facts, list, GraphLink::file));
}

}  // namespace

int run_dump(std::span<const std::string> raw_arguments) {
  DumpArguments arguments;
  OptionTable table = make_table(arguments);
  add_engine_options(table, arguments.engine);
  if (!parse_model_command(table, raw_arguments, "dump", arguments.engine.model)) return 0;
  const bool writes = !arguments.output.empty();
  if (arguments.format.empty()) arguments.format = writes ? "all" : "text";
  if (arguments.has_graphs && !writes) {
    throw InvalidArgument("--graphs writes several files; say where with --output DIR");
  }
  if (arguments.format == "all" && !writes) {
    throw InvalidArgument("--format all writes several files; say where with --output DIR");
  }
  if (writes) {
    create_folder(arguments.output);
    arguments.engine.compilation_config["debug_dump_path"] = arguments.output.string();
  }

  const int num_ranks = arguments.engine.ranks_per_engine();
  if (arguments.rank < 0 || arguments.rank >= std::max(num_ranks, 1)) {
    throw InvalidArgument(
        fmt::format("--rank: {} is not one of the {} ranks", arguments.rank, num_ranks));
  }
  for (int rank = 0; writes && rank < num_ranks; ++rank) {
    arguments.engine.planned_rank = rank;
    if (rank != arguments.rank) (void)api::compile_only(arguments.engine);  // writes its folder
  }
  arguments.engine.planned_rank = arguments.rank;
  const api::CompiledModel model = api::compile_only(arguments.engine);
  print_warnings(model.report);
  require_something_compiled(model);

  const std::string name = model_name(arguments.engine.model);
  const auto wants = [&](std::string_view format) {
    return arguments.format == format || arguments.format == "all";
  };
  if (!writes) {
    fmt::print("{}",
               wants("html")  ? dump_html(model, name)
               : wants("svg") ? dump_svg(model, name)
                              : dump_text(model, name));
    return 0;
  }
  const std::string text = dump_text(model, name);
  if (wants("text")) {
    write_file(arguments.output / "summary.txt", text);
    fmt::print("{}", text);
  }
  if (wants("html")) write_file(arguments.output / "index.html", dump_html(model, name));
  if (wants("svg")) write_file(arguments.output / "split.svg", dump_svg(model, name));
  if (arguments.has_graphs) write_graph_pages(arguments);
  print_log(LogLevel::info, "wrote {}\n", arguments.output.string());
  return 0;
}

}  // namespace reprise::cli
