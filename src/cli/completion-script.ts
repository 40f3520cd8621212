/**
 * Shell completion scripts. They know little: they call `holdfast complete -- words…` and show what it prints. Typed
 * words and names from the store are passed verbatim, never evaluated, and quoted when inserted (zsh and fish do that
 * themselves). The scripts of a completion library would evaluate them, and need a newer bash than some machines have.
 */
export const shells = ['bash', 'zsh', 'fish'] as const
export type Shell = (typeof shells)[number]

// macOS still ships bash 3.2: no mapfile, no negative indexes, and compopt only where it exists.
const bash = `# Completion of holdfast for bash. In ~/.bashrc:
#   eval "$(holdfast completion bash)"

_holdfast() {
  local rest=\${COMP_LINE:0:COMP_POINT} program piece line word current quote breaks cut index
  local -a words=()
  COMPREPLY=()

  # Bash splits words at : and = too; here a word ends at blanks only.
  for ((index = 0; index <= COMP_CWORD; index++)); do
    piece=\${COMP_WORDS[index]}
    if [[ $index -eq 0 || $rest == [[:blank:]]* ]]; then
      rest=\${rest#"\${rest%%[![:blank:]]*}"}
      words+=("")
    fi
    [[ $index -eq $COMP_CWORD ]] && piece=$rest
    words[\${#words[@]}-1]+=$piece
    rest=\${rest#"$piece"}
  done
  program=\${words[0]}
  [[ $program == "~/"* ]] && program=$HOME/\${program#"~/"}
  # Readline keeps an open quote to itself: what is completed begins behind it.
  current=\${words[\${#words[@]}-1]}
  quote=\${current:0:1}
  if [[ $quote == [\\"\\'] ]]; then
    current=\${current:1}
  else
    quote=
    current=\${current//\\\\/}
  fi

  # What bash takes for the word at the cursor begins behind the last of these.
  breaks=\${COMP_WORDBREAKS//[!:=@]/}
  cut=
  [[ -z $quote && -n $breaks ]] && cut=\${current%"\${current##*[$breaks]}"}

  while IFS= read -r line; do
    if [[ $line == :files ]]; then
      # Readline quotes what it knows to be files; where it cannot be told, we do.
      compopt -o filenames 2>/dev/null && quote=known
      while IFS= read -r word; do
        [[ -z $quote ]] && printf -v word %q "$word"
        COMPREPLY+=("$word")
      done < <(compgen -f -- "\${current#"$cut"}")
      return
    fi
    word=\${line%%$'\\t'*}
    [[ $word == "$current"* ]] || continue
    word=\${word#"$cut"}
    # What is inserted must mean itself: quoted, or left out where the open quote cannot hold it.
    if [[ -z $quote ]]; then
      printf -v word %q "$word"
    elif [[ $quote == \\" && $word == *[\\"\\$\\\`\\\\!]* || $quote == \\' && $word == *\\'* ]]; then
      continue
    fi
    COMPREPLY+=("$word")
  done < <("$program" complete --quoted -- "\${words[@]:1}" 2>/dev/null)
}

complete -F _holdfast holdfast
`

const zsh = `#compdef holdfast
# Completion of holdfast for zsh. In ~/.zshrc, behind compinit:
#   eval "$(holdfast completion zsh)"
# or as a file named _holdfast in a folder of $fpath.

_holdfast() {
  local line value
  local -a lines values shown
  lines=("\${(@f)$("\${(Q)words[1]}" complete -- "\${(@Q)words[2,CURRENT-1]}" "\${(Q)PREFIX}" 2>/dev/null)}")
  for line in "\${lines[@]}"; do
    [[ -z $line ]] && continue
    if [[ $line == :files ]]; then
      _files
      return
    fi
    value=\${line%%$'\\t'*}
    values+=("$value")
    if [[ $line == *$'\\t'* ]]; then
      shown+=("$value  -- \${line#*$'\\t'}")
    else
      shown+=("$value")
    fi
  done
  (( \${#values} )) && compadd -l -d shown -a values
}

if [[ \${funcstack[1]} == _holdfast ]]; then
  _holdfast "$@"
elif (( \${+functions[compdef]} )); then
  compdef _holdfast holdfast
fi
`

const fish = `# Completion of holdfast for fish:
#   holdfast completion fish > ~/.config/fish/completions/holdfast.fish

function __holdfast_complete
    set -l words (commandline -opc)
    set -l current (commandline -ct)
    set -l program $words[1]
    set -e words[1]
    set -l answer ($program complete -- $words "$current" 2>/dev/null)
    if test "$answer" = ":files"
        __fish_complete_path "$current"
        return
    end
    for line in $answer
        printf '%s\\n' $line
    end
end

complete -c holdfast -e
complete -c holdfast -f -a '(__holdfast_complete)'
`

export const scripts: Readonly<Record<Shell, string>> = { bash, zsh, fish }
