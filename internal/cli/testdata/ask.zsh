# Types a command line into a zsh of its own and prints what that offers, a word on each line.
#
# $1 completion script
# $2 command line
zmodload zsh/zpty
offers=$(mktemp)
zpty typist zsh -f -i
zpty -w typist "source ${0:h}/offers.zsh $offers $1"
until [[ -s $offers ]] { sleep 0.05 }
: >$offers
zpty -w -n typist "$2"$'\t'
until [[ $(tail -n 1 $offers) == "that is all" ]] { sleep 0.05 }
sed '$d' $offers
rm $offers
zpty -d typist
