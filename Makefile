# Bootstrap of the front door.
CC ?= gcc
B ?= build
all: $(B)/.configured
	ninja -C $(B)
$(B)/.configured:
	meson setup $(B) && touch $@
.PHONY: all
