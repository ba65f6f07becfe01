for(const p of document.querySelectorAll('pre')){const b=document.createElement('button');b.type='button';
b.textContent='copy';b.onclick=()=>{navigator.clipboard&&navigator.clipboard.writeText(p.textContent);b.textContent='copied'};p.after(b)}
addEventListener('beforeprint',()=>{for(const d of document.querySelectorAll('details'))d.open=true});
