#include <fmt/format.h>

#include <array>
#include <string_view>

#include "reprise/base/error.h"
#include "reprise/cli/commands.h"
#include "reprise/cli/option_table.h"

namespace reprise::cli {
namespace {

struct Shell {
  std::string_view name;
  std::string_view script;
};

// Each script calls the program to get the matching words (--help=format:completion prints word,
// value and help, separated by tabs), so the scripts contain no options.
constexpr std::array kShells = {
    Shell{"bash", R"sh(# eval "$(reprise completion bash)"
_reprise() {
  local program="${COMP_WORDS[0]}" current="${COMP_WORDS[COMP_CWORD]}" previous="${COMP_WORDS[COMP_CWORD-1]}"
  local words=() word value lines i
  for ((i = 1; i < COMP_CWORD; ++i)); do
    [[ "${COMP_WORDS[i]}" == -* ]] && break
    words+=("${COMP_WORDS[i]}")
  done
  lines="$("$program" "${words[@]}" --help=format:completion 2>/dev/null)"
  COMPREPLY=()
  while IFS='|' read -r word value; do
    if [[ "$word" == "$previous" && -n "$value" ]]; then
      case "$value" in
        =*) mapfile -t COMPREPLY < <(compgen -W "${value:1}" -- "$current") ;;
        *DIR*|*FILE*) mapfile -t COMPREPLY < <(compgen -f -- "$current") ;;
      esac
      return
    fi
  done < <(awk -F'\t' '{ gsub(",", " ", $2); print $1 "|" $2 }' <<<"$lines")
  mapfile -t COMPREPLY < <(compgen -W "$(cut -f1 <<<"$lines")" -- "$current")
  [[ "$current" == -* ]] || mapfile -t -O "${#COMPREPLY[@]}" COMPREPLY < <(compgen -f -- "$current")
}
complete -o filenames -F _reprise reprise
)sh"},
    Shell{"zsh", R"sh(#compdef reprise
# eval "$(reprise completion zsh)"
_reprise() {
  local -a said flags
  local word value help line i
  for ((i = 2; i < CURRENT; ++i)); do
    [[ "${words[i]}" == -* ]] && break
    said+=("${words[i]}")
  done
  for line in "${(@f)$("${words[1]}" "${said[@]}" --help=format:completion 2>/dev/null)}"; do
    word="${line%%$'\t'*}" line="${line#*$'\t'}"
    value="${line%%$'\t'*}" help="${line#*$'\t'}"
    if [[ "$word" == "${words[CURRENT-1]}" && -n "$value" ]]; then
      case "$value" in
        =*) compadd -- ${(s:,:)value#=} ;;
        *DIR*|*FILE*) _files ;;
      esac
      return
    fi
    flags+=("${word//:/\\:}:${help}")
  done
  _describe 'word' flags
  [[ "${words[CURRENT]}" == -* ]] || _files
}
compdef _reprise reprise
)sh"},
    Shell{"fish", R"sh(# reprise completion fish | source
function __reprise_words
  set -l tokens (commandline -opc)
  set -l said
  for token in $tokens[2..-1]
    string match -q -- '-*' $token; and break
    set -a said $token
  end
  for line in ($tokens[1] $said --help=format:completion 2>/dev/null)
    set -l parts (string split \t -- $line)
    if test "$parts[1]" = "$tokens[-1]"; and test -n "$parts[2]"
      switch $parts[2]
        case '=*'
          string split , -- (string sub -s 2 -- $parts[2])
        case '*DIR*' '*FILE*'
          __fish_complete_path (commandline -ct)
      end
      return
    end
  end
  for line in ($tokens[1] $said --help=format:completion 2>/dev/null)
    set -l parts (string split \t -- $line)
    printf '%s\t%s\n' $parts[1] $parts[3]
  end
end
complete -c reprise -f -a '(__reprise_words)'
complete -c reprise -n 'not string match -q -- "-*" (commandline -ct)' -F
)sh"},
};

}  // namespace

int run_completion(std::span<const std::string> arguments) {
  const OptionTable table(
      "reprise completion bash|zsh|fish",
      "Writes a script that completes commands, options and values: eval \"$(reprise "
      "completion bash)\" in .bashrc, the same in .zshrc, or reprise completion fish | source.");
  if (OptionTable::asks_for_help(arguments)) {
    fmt::print("{}", table.help_text(arguments));
    return 0;
  }
  const std::vector<std::string> positional = table.parse(arguments);
  for (const Shell& shell : kShells) {
    if (positional.size() == 1 && positional[0] == shell.name) {
      fmt::print("{}", shell.script);
      return 0;
    }
  }
  throw InvalidArgument("completion needs one of bash, zsh, fish");
}

}  // namespace reprise::cli
