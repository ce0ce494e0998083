# SPDX-License-Identifier: LGPL-3.0-or-later
# Compiles what needs no further libraries of the ganesha source in $(TREE) (CONFIG: the folder of
# config.h), and a program that uses its AVL trees.
skipped = %-test.c %err_inject.c %nfs_filehandle_mgmt.c %nfs_read_conf.c %rados_grace.c
sources = $(filter-out $(skipped), $(wildcard $(addprefix $(TREE)/src/, \
	avl/*.c hashtable/*.c support/*.c Protocols/XDR/*.c)))
objects = $(sources:.c=.o)
flags = -w -O1 -D_GNU_SOURCE -MMD -I$(CONFIG) -I$(TREE)/src/include -I$(TREE)/src/include/os/linux \
	-I/usr/include/ntirpc $(shell pkg-config --cflags dbus-1)

program: $(objects) main.o
	gcc -o $@ main.o $(filter %/avl.o, $(objects))

main.c:
	printf '%s\n' '#include "avltree.h"' 'static int cmp(const struct avltree_node *a,' \
		'const struct avltree_node *b) { return (a > b) - (a < b); }' \
		'int main(void) { static struct avltree_node n[1000]; struct avltree t; int i = 0;' \
		'avltree_init(&t, cmp, 0); for (; i < 1000; i++) avltree_insert(&n[i], &t);' \
		'for (struct avltree_node *x = avltree_first(&t); x; x = avltree_next(x)) i--;' \
		'return i; }' > $@

%.o: %.c
	@echo $<
	gcc $(flags) -c -o $@ $<

clean:
	rm -f program main.* $(objects) $(objects:.o=.d)

-include $(objects:.o=.d)
.PHONY: clean
