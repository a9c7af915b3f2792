#include "reprise/cli/manual.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>

#include "reprise/cli/version.h"

namespace reprise::cli {
namespace {

// Escapes plain text for roff: users can search and paste hyphens, and no line is read as a macro.
std::string escape(std::string_view text) {
  std::string escaped;
  for (char c : text) {
    const bool starts_line = escaped.empty() || escaped.back() == '\n';
    if (starts_line && (c == '.' || c == '\'')) escaped += "\\&";
    if (c == '\\') {
      escaped += "\\e";
    } else if (c == '"') {
      escaped += "\\(dq";
    } else if (c == '-') {
      escaped += "\\-";
    } else if (c != '\n' || !starts_line) {
      escaped += c;
    }
  }
  return escaped;
}

std::string upper(std::string_view text) {
  std::string result(text);
  for (char& c : result) c = static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
  return result;
}

// "reprise serve MODEL [options]" -> "reprise-serve"
std::string page_name(std::string_view usage) {
  std::string name;
  while (!usage.empty()) {
    const std::string_view word = usage.substr(0, usage.find(' '));
    if (word.empty() ||
        word.find_first_not_of("abcdefghijklmnopqrstuvwxyz-") != std::string_view::npos)
      break;
    if (!name.empty()) name += '-';
    name += word;
    usage.remove_prefix(std::min(word.size() + 1, usage.size()));
  }
  return name;
}

}  // namespace

ManualPage::ManualPage(std::string_view usage, std::string_view summary) {
  const std::string name = page_name(usage);
  const std::string_view first_sentence = summary.substr(0, summary.find('.'));
  text_ = fmt::format(
      ".TH {} 1 {} \"Reprise {}\" \"Reprise\"\n.SH NAME\n{} \\- {}\n.SH SYNOPSIS\n{}\n"
      ".SH DESCRIPTION\n{}\n",
      escape(upper(name)),
      kVersionDate,
      kVersion,
      escape(name),
      escape(first_sentence),
      escape(usage),
      escape(summary));
}

void ManualPage::add_section(std::string_view title) {
  text_ += fmt::format(".SH {}\n", escape(upper(title)));
}

void ManualPage::add_entry(std::string_view term, std::string_view text) {
  text_ += fmt::format(".TP\n.B {}\n{}\n", escape(term), text.empty() ? "\\&" : escape(text));
}

void ManualPage::add_paragraph(std::string_view text) {
  text_ += fmt::format("{}\n", escape(text));
}

}  // namespace reprise::cli
