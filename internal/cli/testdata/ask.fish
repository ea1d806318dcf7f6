# Prints what fish offers for a command line, a word on each line, with what it says of itself.
#
# $argv[1] completion script
# $argv[2] command line
source $argv[1]
complete -C $argv[2]
