# Lets this zsh complete command lines, and write down what it offers.
#
# $1 file to write to
# $2 completion script
offers=$1
autoload -U compinit && compinit -D -u
source $2
compadd() {
	local -a fit
	# Whoever names an array wants the words for himself.
	(( ${argv[(I)-[OAD]]} )) || { builtin compadd -O fit "$@"; print -rl -- $fit >>$offers }
	builtin compadd "$@"
}
finish() { print "that is all" >>$offers }
comppostfuncs=(finish)
zle-line-init() { print ready >>$offers }
zle -N zle-line-init
