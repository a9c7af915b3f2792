#include "reprise/cli/dump_report.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <utility>
#include <vector>

#include "reprise/api/loading/compiled_model.h"
#include "reprise/api/options/product_report.h"
#include "reprise/cli/compilation_text.h"
#include "reprise/cli/progress.h"
#include "reprise/cli/tuned_products_text.h"
#include "reprise/compile/report/launch_count.h"
#include "reprise/compile/report/render_split.h"
#include "reprise/compile/report/split_outline.h"
#include "reprise/config/explain.h"
#include "reprise/program/text.h"

namespace reprise::cli {
namespace {

using program::Piece;
using program::Program;
using program::SplitProgram;

// One program of the split, before and after the passes.
struct ProgramFacts {
  size_t index = 0;
  bool is_splitting = false;
  std::vector<size_t> pieces;  // the pieces that run this program
  const Program* before = nullptr;
  const Program* after = nullptr;
  const compile::PipelineReport* report = nullptr;  // null: the passes ran on the whole program
  size_t launches_after = 0;
};

/// The kernels of matrix products that were chosen by measurement; empty: rules choose all of them.
std::string products_text(const api::StartupReport& report) {
  if (report.products == nullptr || report.products->table.is_empty()) return {};
  const api::ProductReport& products = *report.products;
  return fmt::format(
      "{} products measured on this device, {} differ from the built-in rules: {}\n{}",
      products.table.num_measured(),
      products.table.num_changed(),
      products.file,
      changed_products_text(products.table));
}

// "1 3 5 7 9 11", or "1 3 5 ... 47" for many.
std::string list_text(const std::vector<size_t>& numbers) {
  constexpr size_t kMost = 8;
  std::string text;
  for (size_t i = 0; i < numbers.size(); ++i) {
    if (numbers.size() > kMost && i == 3) {
      text += "... ";
      i = numbers.size() - 1;
    }
    text += fmt::format("{} ", numbers[i]);
  }
  if (!text.empty()) text.pop_back();
  return text;
}

bool is_cut_alike(const SplitProgram& before, const SplitProgram& after) {
  return std::ranges::equal(before.pieces, after.pieces, [](const Piece& a, const Piece& b) {
    return a.is_splitting == b.is_splitting;
  });
}

std::vector<ProgramFacts> facts_of(const compile::CompilationStages& stages) {
  const SplitProgram& after = stages.after;
  const bool alike = is_cut_alike(stages.before, after);
  std::vector<ProgramFacts> facts(after.programs.size());
  for (size_t i = 0; i < facts.size(); ++i) {
    facts[i] = {.index = i,
                .after = &after.programs[i],
                .report = stages.reports.size() == facts.size() ? &stages.reports[i] : nullptr,
                .launches_after = compile::num_launches(after.programs[i], stages.has_code.at(i))};
  }
  for (size_t piece = 0; piece < after.pieces.size(); ++piece) {
    ProgramFacts& of = facts[after.pieces[piece].program];
    of.is_splitting = after.pieces[piece].is_splitting;
    if (alike && of.pieces.empty()) {
      of.before = &stages.before.programs[stages.before.pieces[piece].program];
    }
    of.pieces.push_back(piece);
  }
  return facts;
}

std::string pieces_text(const compile::CompilationStages& stages) {
  const size_t num_pieces = stages.after.pieces.size();
  const size_t num_capturable = stages.after.num_capturable_pieces();
  // When there is no report per program, the passes ran on the whole program before the split.
  const bool is_cut_afterwards = stages.reports.size() != stages.after.programs.size();
  return fmt::format(
      "{}: {} compiled ({} unique), {} split points{}",
      num_pieces,
      num_capturable,
      stages.after.num_unique_capturable_pieces(),
      num_pieces - num_capturable,
      is_cut_afterwards ? "; the passes saw the whole program, which was split afterwards" : "");
}

std::string seconds_text(const compile::CompilationSeconds& seconds) {
  return fmt::format(
      "{:.4f}: trace {:.4f}, split {:.4f}, passes {:.4f}, plan {:.4f}, codegen {:.4f}",
      seconds.total(),
      seconds.trace,
      seconds.split,
      seconds.passes,
      seconds.plan,
      seconds.codegen);
}

// Pairs of name and value, in order, for the head of both the text and the page.
std::vector<std::pair<std::string, std::string>> head_lines(const api::CompiledModel& model) {
  const compile::CompilationReport& compilation = model.report.compilation;
  const compile::CompilationStages& stages = model.stages;
  const compile::CompilationCounter& counter = compilation.counter;
  const size_t num_pieces = stages.after.pieces.size();
  const size_t traced_ops = stages.traced.nodes.size();
  std::vector<std::pair<std::string, std::string>> lines;
  lines.emplace_back("level", level_text(model.report));
  lines.emplace_back("backend", compilation.backend);
  lines.emplace_back("cudagraph_mode", to_string(model.report.resolved.mode));
  for (const cudagraph::AttentionBackendSupport& group : model.report.resolved.attention) {
    if (!group.layers.empty()) {
      lines.emplace_back("attention", config::attention_group_text(group));
    }
  }
  lines.emplace_back("traced",
                     fmt::format("{} ops, {} of them launches; {} parameters, {} states",
                                 traced_ops,
                                 compilation.traced_launches,
                                 stages.traced.parameters.size(),
                                 stages.traced.states.size()));
  lines.emplace_back("pieces", pieces_text(stages));
  const size_t num_ranges = counter.num_piecewise_graphs_seen / std::max<size_t>(num_pieces, 1);
  if (num_ranges > 1) {
    lines.emplace_back(
        "shown",
        fmt::format("the last of {} ranges of batch sizes; launches are those of one "
                    "token, code counts all",
                    num_ranges));
  }
  lines.emplace_back("order", compile::describe_order(stages.after));
  lines.emplace_back("launches", launches_text(compilation));
  lines.emplace_back("memory",
                     compilation.planned_bytes_per_token == 0
                         ? std::string("results come from a pool, nothing is planned")
                         : fmt::format("{} bytes per token planned, {} alive at once at most",
                                       compilation.planned_bytes_per_token,
                                       compilation.live_bytes_per_token));
  lines.emplace_back("code",
                     fmt::format("{} row groups, {} generated kernels, {}",
                                 counter.num_fused_groups,
                                 counter.num_generated_kernels,
                                 format_bytes(stages.object_bytes)));
  lines.emplace_back("seconds", seconds_text(compilation.seconds));
  return lines;
}

std::string program_row(const ProgramFacts& facts) {
  const auto change = [](bool known, size_t before, size_t after) {
    return known ? fmt::format("{} -> {}", before, after) : fmt::format("{}", after);
  };
  return fmt::format("{:<8} {:<12} {:>12} {:>15}   {}\n",
                     facts.index,
                     facts.is_splitting ? "split point" : "compiled",
                     change(facts.before != nullptr,
                            facts.before != nullptr ? facts.before->nodes.size() : 0,
                            facts.after->nodes.size()),
                     change(facts.before != nullptr,
                            facts.before != nullptr ? compile::num_launches(*facts.before) : 0,
                            facts.launches_after),
                     list_text(facts.pieces));
}

std::string matches_text(const compile::PipelineReport& report) {
  std::string text;
  for (const compile::PassRun& run : report.passes) {
    if (run.num_matches == 0) continue;
    if (!text.empty()) text += ", ";
    text += fmt::format("{} {}", run.pass, run.num_matches);
  }
  return text.empty() ? "nothing" : text;
}

void append_ops(std::string& text, const char* title, const Program& program) {
  text += fmt::format("  {}\n", title);
  const std::string ops = compile::print_ops(program);
  for (std::string_view rest = ops; !rest.empty(); rest.remove_prefix(rest.find('\n') + 1)) {
    text += fmt::format("  {}\n", rest.substr(0, rest.find('\n')));
  }
}

void append_program(std::string& text, const ProgramFacts& facts) {
  text += fmt::format("\nprogram {}, {}: {} {}\n",
                      facts.index,
                      facts.is_splitting ? "a split point" : "compiled",
                      facts.pieces.size() == 1 ? "piece" : "pieces",
                      list_text(facts.pieces));
  if (facts.report != nullptr) {
    text += fmt::format("  matches: {}\n", matches_text(*facts.report));
  }
  const bool is_unchanged =
      facts.before != nullptr && program::print(*facts.before) == program::print(*facts.after);
  if (is_unchanged) return append_ops(text, "as traced, and as compiled", *facts.after);
  if (facts.before != nullptr) append_ops(text, "as traced", *facts.before);
  append_ops(text, "as compiled", *facts.after);
}

// The table of matches: one row per pass, one column per program.
std::string match_table(const std::vector<compile::PipelineReport>& reports) {
  if (reports.empty() || reports.front().passes.empty()) return {};
  const bool is_whole = reports.size() == 1;
  std::string text =
      fmt::format("\n{:<34}", is_whole ? "pass, matches" : "pass, matches in program");
  for (size_t i = 0; !is_whole && i < reports.size(); ++i) text += fmt::format("{:>6}", i);
  text += '\n';
  for (size_t pass = 0; pass < reports.front().passes.size(); ++pass) {
    text += fmt::format("{:<34}", reports.front().passes[pass].pass);
    for (const compile::PipelineReport& report : reports) {
      const size_t matches = report.passes.at(pass).num_matches;
      text += matches == 0 ? fmt::format("{:>6}", ".") : fmt::format("{:>6}", matches);
    }
    text += '\n';
  }
  return text;
}

// ---- the page ----

using compile::escape_xml;

constexpr const char* kPageStyle = R"(
  :root { color-scheme: light dark; }
  body { font: 15px/1.5 system-ui, sans-serif; max-width: 1120px; margin: 2rem auto; padding: 0 1rem;
         color: #1f2328; background: #ffffff; }
  h1 { font-size: 1.4rem; } h2 { font-size: 1.1rem; margin-top: 2.2rem; }
  table { border-collapse: collapse; }
  th, td { text-align: left; padding: 0.15rem 1.2rem 0.15rem 0; vertical-align: top; font-weight: 400; }
  th { color: #59636e; }
  .grid th, .grid td { border-bottom: 1px solid #d1d9e0; }
  .grid .n { text-align: right; font-variant-numeric: tabular-nums; }
  .zero { color: #818b98; }
  pre { font: 12px/1.45 ui-monospace, "DejaVu Sans Mono", monospace; margin: 0.3rem 0; overflow-x: auto;
        background: #f6f8fa; padding: 0.6rem; border-radius: 6px; }
  summary { cursor: pointer; padding: 0.2rem 0; }
  .picture { overflow-x: auto; }
  .picture svg { max-width: 100%; min-width: 860px; height: auto; }
  @media (prefers-color-scheme: dark) {
    body { color: #e6edf3; background: #0d1117; }
    th { color: #9da7b3; }
    .grid th, .grid td { border-color: #3d444d; }
    pre { background: #151b23; }
  }
)";

std::string facts_table(const api::CompiledModel& model) {
  std::string html = "<table>\n";
  for (const auto& [title, value] : head_lines(model)) {
    html += fmt::format("<tr><th>{}</th><td>{}</td></tr>\n", escape_xml(title), escape_xml(value));
  }
  return html + "</table>\n";
}

std::string match_table_html(const std::vector<compile::PipelineReport>& reports) {
  if (reports.empty() || reports.front().passes.empty()) return "<p>No passes ran.</p>\n";
  std::string html = "<table class=\"grid\">\n<tr><th>pass</th>";
  for (size_t i = 0; i < reports.size(); ++i) {
    html += reports.size() == 1 ? "<th class=\"n\">matches</th>"
                                : fmt::format("<th class=\"n\">program {}</th>", i);
  }
  html += "</tr>\n";
  for (size_t pass = 0; pass < reports.front().passes.size(); ++pass) {
    html += fmt::format("<tr><td>{}</td>", escape_xml(reports.front().passes[pass].pass));
    for (const compile::PipelineReport& report : reports) {
      const size_t matches = report.passes.at(pass).num_matches;
      html += fmt::format("<td class=\"n{}\">{}</td>", matches == 0 ? " zero" : "", matches);
    }
    html += "</tr>\n";
  }
  return html + "</table>\n";
}

std::string program_html(const ProgramFacts& facts) {
  std::string html = fmt::format("<details><summary>Program {}: {} {}</summary>\n",
                                 facts.index,
                                 facts.is_splitting ? "split point, pieces" : "compiled, pieces",
                                 list_text(facts.pieces));
  if (facts.before != nullptr) {
    html += fmt::format("<p>As traced</p>\n<pre>{}</pre>\n",
                        escape_xml(compile::print_ops(*facts.before)));
  }
  return html + fmt::format("<p>As compiled</p>\n<pre>{}</pre>\n</details>\n",
                            escape_xml(compile::print_ops(*facts.after)));
}

}  // namespace

std::string dump_text(const api::CompiledModel& model, const std::string& name) {
  std::string text = fmt::format("{}\n", name);
  for (const auto& [title, value] : head_lines(model)) {
    text += fmt::format("{:<15} {}\n", title, value);
  }
  const std::vector<ProgramFacts> programs = facts_of(model.stages);
  text += fmt::format(
      "\n{:<8} {:<12} {:>12} {:>15}   {}\n", "program", "is", "ops", "launches", "pieces");
  for (const ProgramFacts& facts : programs) text += program_row(facts);
  text += match_table(model.stages.reports);
  for (const ProgramFacts& facts : programs) append_program(text, facts);
  if (const std::string products = products_text(model.report); !products.empty()) {
    text += "\n" + products;
  }
  return text;
}

std::string dump_svg(const api::CompiledModel& model, const std::string& name) {
  const compile::CompilationStages& stages = model.stages;
  return compile::render_svg(
      {.before = &stages.before,
       .after = &stages.after,
       .has_code = stages.has_code,
       .title = fmt::format("{}, level {}", name, level_text(model.report))});
}

std::string dump_html(const api::CompiledModel& model, const std::string& name) {
  std::string html = fmt::format(
      "<!DOCTYPE html>\n<html xmlns=\"http://www.w3.org/1999/xhtml\" lang=\"en\">\n<head>\n"
      "<meta charset=\"utf-8\"/>\n"
      "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\"/>\n"
      "<title>{0}: compiled</title>\n<style>{1}</style>\n</head>\n<body>\n"
      "<h1>What the compiler makes of {0}</h1>\n",
      escape_xml(name),
      kPageStyle);
  html += facts_table(model);
  html += fmt::format("<h2>The program in pieces</h2>\n<div class=\"picture\">\n{}</div>\n",
                      dump_svg(model, name));
  html += "<h2>What the passes found</h2>\n" + match_table_html(model.stages.reports);
  html += "<h2>Ops</h2>\n";
  for (const ProgramFacts& facts : facts_of(model.stages)) html += program_html(facts);
  if (const std::string products = products_text(model.report); !products.empty()) {
    html += fmt::format("<h2>Measured products</h2>\n<pre>{}</pre>\n", escape_xml(products));
  }
  html += fmt::format("<h2>Counters</h2>\n<pre>{}</pre>\n</body>\n</html>\n",
                      escape_xml(to_string(model.report.compilation.counter)));
  return html;
}

}  // namespace reprise::cli
